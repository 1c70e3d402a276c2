"""The hooks of a project: they repair what they can, and refuse what does not belong into git."""

import subprocess

import pytest
from projects import call, environment_of
from repositories import git, write

STUDENT = """\
import torch
import os
import sys, numpy as np
from torch import nn


class Net(nn.Module):
    sizes = [1, 2]

    def __init__(self, w=3):
        super(Net, self).__init__()
        l = [1,2]
        O = 3
        a = 1; b = 2
        act = lambda x: x + a + b + O
        self.l = l; self.act = act

    def forward(self, x):
        B, C, H, W = x.shape
        if C > 1:
            if H > 2:
                x = x * 2
        out = []
        for i in range(3):
            out.append(x)
        for i, y in enumerate(out):
            print("%d of %s" % (3, y))
        for p, q in zip(out, out):
            print(p, q)
        f = open("a file with a very long name that goes on and on and on and on and on and on and on and on and on")
        f.close()
        if x.any() == True:
            print(f"no placeholders")
        return torch.stack(out + [x]), np.random.rand(3)
"""


@pytest.fixture
def committing(own_project):
    """committing(): the exit code of a commit of everything, and what the hooks say."""
    call(own_project, "pre-commit", "install")

    def commit():
        git(own_project, "add", "-A")
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
        done = subprocess.run(
            ["git", *identity, "commit", "-m", "Try"],
            cwd=own_project,
            env=environment_of(own_project),
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    return commit


@pytest.mark.release
@pytest.mark.slow
def test_first_code_of_a_student_is_repaired_and_passes_the_second_time(own_project, committing):
    path = own_project / "src/myproj/net.py"
    path.write_text(STUDENT)
    code, text = committing()
    assert code == 1
    assert "ruff repaired src/myproj/net.py" in text
    assert "add and commit again: git add src/myproj/net.py" in text
    assert "net.py:" not in text, "nothing is left to do by hand"
    repaired = path.read_text()
    assert "        a = 1\n        b = 2\n" in repaired
    code, text = committing()
    assert code == 0, text
    path.write_text(STUDENT)
    call(own_project, "make", "fix")
    assert path.read_text() == repaired


MISTAKES = {
    "undefined": "def f():\n    return nowhere\n",
    "twice": "def f():\n    return 1\n\n\ndef f():\n    return 2\n",
    "default": "def f(x=[]):\n    return x\n",
    "loop": "def f():\n    return [lambda: i for i in range(3)]\n",
    "bare": "def f():\n    try:\n        pass\n    except:\n        pass\n",
    "format": 'def f():\n    return "{} {}".format(1)\n',
}


def test_mistakes_are_still_found(own_project):
    write(own_project, {f"src/myproj/{name}.py": text for name, text in MISTAKES.items()})
    text = call(own_project, "make", "fix", rc=2)
    for name in MISTAKES:
        assert f"src/myproj/{name}.py:" in text


CONFLICT = "one\n<<<<<<< before updating\ntwo\n=======\nthree\n>>>>>>> after updating\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Makefile", "README.md", "notes.txt", "src/myproj/conf/x.yaml", "a b.toml"]
)
def test_a_file_in_two_versions_is_not_committed(own_project, committing, name):
    write(own_project, {name: CONFLICT})
    code, text = committing()
    assert code == 1
    assert f"{name}:2: two versions of some lines" in text
    assert f"git add {name}" in text
    assert "ruff" not in text, "it comes first, alone"


def test_what_only_looks_like_a_conflict_passes(own_project, module):
    conflicts_in = module("hooks.checks").conflicts_in
    assert conflicts_in(b"Heading\n=======\n") == []
    assert conflicts_in(b"a <<<<<<< b\n>>>>>>> c\n") == []
    assert conflicts_in(b"\0\n<<<<<<< a\n>>>>>>> c\n") == []
    assert conflicts_in(CONFLICT.encode() * 2) == [2, 8]


@pytest.mark.slow
def test_a_private_key_and_a_large_file_are_not_committed(own_project, committing):
    key = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nabc\n"
    write(own_project, {"key.txt": key, "table.csv": "1\n" * 600_000, "src/myproj/a.py": "A = 1\n"})
    code, text = committing()
    assert code == 1
    assert "key.txt:1 looks like a private key" in text
    assert "table.csv (1172 KB) exceeds 1000 KB." in text
    assert "Data belongs in data/" in text


def test_a_large_file_that_git_lfs_keeps_passes(own_project):
    write(own_project, {"table.csv": "1\n" * 600_000, ".gitattributes": "*.csv filter=lfs\n"})
    assert "table.csv" not in call(own_project, "lab", "hooks", "table.csv")


@pytest.mark.release
@pytest.mark.slow
def test_a_trial_without_init_gets_one(own_project, committing):
    write(own_project, {"src/myproj/trials/wide/model.py": "A = 1\n"})
    code, text = committing()
    assert code == 1
    assert "git add " in text
    assert (own_project / "src/myproj/trials/wide/__init__.py").exists()
    assert committing()[0] == 0


def test_the_users_own_rules_hold(own_project):
    pyproject = own_project / "pyproject.toml"
    text = pyproject.read_text().replace("line-length = 100", "line-length = 60", 1)
    pyproject.write_text(text.replace('"NPY201", "PT"]', '"NPY201", "PT", "D"]'))
    text = call(own_project, "make", "fix", rc=2)
    assert "D102 Missing docstring in public method" in text
    assert "src/myproj/task.py:" in text
    call(own_project, "lab", "hooks", "src/myproj/task.py", rc=1)


@pytest.mark.slow
def test_own_contracts_of_imports_hold_too(own_project):
    contract = """
[tool.importlinter]
root_package = "myproj"

[[tool.importlinter.contracts]]
name = "mine"
type = "forbidden"
source_modules = ["myproj.task"]
forbidden_modules = ["myproj.data"]
"""
    with open(own_project / "pyproject.toml", "a") as pyproject:
        pyproject.write(contract)
    (own_project / "src/myproj/task.py").write_text("from . import data  # noqa: F401\n")
    git(own_project, "add", "-A")
    text = call(own_project, "lab", "hooks", rc=1)
    assert "mine BROKEN" in text
    assert "^ refused by the check imports" in text
    call(own_project, "lab", "hooks", SKIP="imports")


def test_inside_a_larger_repository_make_check_looks_at_the_project(own_project):
    (own_project / ".git").rename(own_project.parent / ".git")
    (own_project.parent / "other.txt").write_text(CONFLICT)
    write(own_project, {"notes.txt": CONFLICT})
    git(own_project.parent, "add", "-A")
    text = call(own_project, "make", "check", rc=2)
    assert "notes.txt:2: two versions" in text
    assert "other.txt" not in text
