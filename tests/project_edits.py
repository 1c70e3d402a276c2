"""What users do to their projects: each edit is a function of the project's folder."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from releases import DELETED, DROPPED_SEED, LATE_SEED, RENAMED
from repositories import commit, git, write


@dataclass(frozen=True)
class Edit:
    """An edit, and what the six later releases may do to it.

    Args:
        conflicts: the files in which the user must choose, since a release changes the same lines.
        lost: the edited files that a release renames or deletes; the hook names them.
    """

    apply: Callable[[Path], None]
    conflicts: frozenset[str] = field(default_factory=frozenset)
    lost: frozenset[str] = field(default_factory=frozenset)


EDITS = {}


def edit(*, conflicts=(), lost=()):
    def register(function):
        EDITS[function.__name__] = Edit(function, frozenset(conflicts), frozenset(lost))
        return function

    return register


def replace(folder, name, old, new):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{name} has changed; change tests/project_edits.py with it"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def append(folder, name, text):
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write(text)


@edit()
def nothing(folder):
    pass


# The user's own files


@edit()
def readme(folder):
    replace(folder, "README.md", "## Set up", "My thesis.\n\n## Set up my thesis")


@edit()
def a_trial(folder):
    trials = folder / "src/myproj/trials"
    shutil.copytree(trials / "baseline", trials / "wide")
    replace(trials, "wide/config.yaml", "width: 32", "width: 64")


@edit()
def baseline_changed(folder):
    replace(folder, "src/myproj/trials/baseline/config.yaml", "width: 32", "width: 48")


@edit()
def a_trial_deleted(folder):
    shutil.rmtree(folder / "src/myproj/trials/baseline")


@edit()
def loss(folder):
    replace(folder, "src/myproj/task.py", '"""', '"""My own: ')


@edit()
def settings(folder):
    replace(folder, "src/myproj/conf/config.yaml", "max_epochs: 20", "max_epochs: 2")
    append(folder, "src/myproj/conf/config.yaml", "seed: 3\n")


@edit()
def own_groups_and_modules(folder):
    write(
        folder, {"src/myproj/conf/optimizer/mine.yaml": "lr: 1\n", "src/myproj/net.py": "A = 1\n"}
    )


@edit()
def own_tests(folder):
    write(folder, {"tests/test_net.py": "def test_net():\n    assert True\n"})
    append(folder, "tests/test_data.py", "\n\ndef test_mine():\n    assert True\n")


@edit()
def unicode_names(folder):
    write(folder, {"notes/Übersicht 図.md": "é\n", "src/myproj/trials/baseline/ä b.txt": "x\n"})


@edit()
def a_file_that_a_later_seed_is_called_too(folder):
    write(folder, {LATE_SEED: '"""My plots."""\n'})


@edit()
def seeds_deleted_and_renamed(folder):
    (folder / DROPPED_SEED).unlink()
    (folder / "README.md").rename(folder / "README.rst")
    (folder / "tests/test_data.py").unlink()


@edit()
def a_seed_that_is_dropped_later(folder):
    append(folder, DROPPED_SEED, "doi: 10.1234/5\n")


# Merged files


@edit()
def a_dependency(folder):
    line = '    "scikit-learn>=1.5",\n'
    replace(folder, "pyproject.toml", line, f'    "einops>=0.8",\n{line}    "timm",\n')


@edit()
def tools_for_development(folder):
    replace(folder, "pyproject.toml", '[lab-dev]",\n', '[lab-dev]",\n    "ipdb",\n')
    append(folder, "pyproject.toml", '\n[dependency-groups]\ndev = ["ipython"]\n')


@edit()
def metadata(folder):
    replace(folder, "pyproject.toml", 'version = "0.1.0"', 'version = "0.4.0"')
    replace(folder, "pyproject.toml", '"The authors of myproj"', '"Ann Bee", email = "a@b.org"')
    replace(
        folder,
        "pyproject.toml",
        "[project.scripts]\n",
        '[project.urls]\nCode = "https://a.org"\n\n[project.scripts]\nplot = "myproj.plot:main"\n',
    )


@edit()
def rules_of_ruff(folder):
    replace(
        folder,
        "pyproject.toml",
        "[tool.pytest",
        'line-length = 88\nlint.extend-select = ["D"]\n\n[tool.pytest',
    )


@edit(conflicts=["pyproject.toml"])
def settings_of_pytest(folder):
    replace(
        folder, "pyproject.toml", "timeout = 120\n", 'timeout = 300\nmarkers = ["gpu: needs one"]\n'
    )


@edit(conflicts=["pyproject.toml"])
def the_same_line_of_pyproject(folder):
    replace(folder, "pyproject.toml", '    "h5py>=3.11"', '    "h5py>=3.11,<4"')


@edit()
def settings_of_another_tool(folder):
    append(folder, "pyproject.toml", "\n[tool.mypy]\nstrict = true\n")


@edit()
def targets(folder):
    append(folder, "Makefile", "\nfigures:\n\tpython figures.py\n")


@edit()
def a_target_of_the_template_replaced(folder):
    append(folder, "Makefile", "\ntest:\n\t$(BIN)/python -m pytest -x\n")


@edit()
def hooks(folder):
    append(
        folder,
        ".pre-commit-config.yaml",
        "  - repo: local\n    hooks:\n      - {id: mine, name: mine, entry: 'true', language: system}\n",
    )


@edit()
def arguments_of_the_hook(folder):
    replace(folder, ".pre-commit-config.yaml", "args: []", "args: [--max-kb=5000]")


@edit()
def ignored(folder):
    append(folder, ".gitignore", "/figures\n*.npz\n")


@edit()
def ignored_in_the_middle(folder):
    replace(folder, ".gitignore", "# secrets\n", "# secrets\n*.pem\n")


@edit()
def attributes(folder):
    append(folder, ".gitattributes", "*.npz filter=lfs\n")


@edit()
def train_py(folder):
    replace(
        folder, "src/myproj/train.py", "    # 1. Settings", "    print('mine')\n    # 1. Settings"
    )


@edit(conflicts=["src/myproj/train.py"])
def train_py_at_the_same_line(folder):
    replace(folder, "src/myproj/train.py", '"""The map', '"""My map')


@edit(conflicts=["src/myproj/train.py"])
def train_py_written_anew(folder):
    (folder / "src/myproj/train.py").write_text("def train(config, run, recording):\n    pass\n")


# The template's files


@edit()
def a_setting_in_lab_yaml(folder):
    replace(folder, "src/myproj/lab/conf/lab.yaml", "max_epochs: 10 #", "max_epochs: 11 #")


@edit(conflicts=["src/myproj/lab/conf/lab.yaml"])
def the_same_line_of_lab_yaml(folder):
    replace(folder, "src/myproj/lab/conf/lab.yaml", "seed: 0 #", "seed: 7 #")


@edit()
def a_template_file(folder):
    append(folder, "src/myproj/lab/cli.py", "\n\nMINE = 1\n")


@edit(conflicts=["src/myproj/lab/errors.py"])
def the_same_line_of_a_template_file(folder):
    replace(folder, "src/myproj/lab/errors.py", "    exit_code = 3\n", "    exit_code = 33\n")


@edit(lost=[RENAMED, DELETED])
def template_files_that_are_renamed_or_deleted_later(folder):
    append(folder, RENAMED, "\n\nMINE = 1\n")
    append(folder, DELETED, "# mine\n")


@edit()
def own_files_next_to_the_templates(folder):
    write(
        folder,
        {
            "src/myproj/lab/mine.py": "A = 1\n",
            ".github/workflows/mine.yml": "on: push\n",
            "docs/mine.md": "# Mine\n",
        },
    )


@edit()
def template_files_deleted(folder):
    for name in ("Makefile", ".github/workflows/check.yml", "src/myproj/lab/errors.py"):
        (folder / name).unlink()


@edit()
def a_folder_of_lab_deleted(folder):
    shutil.rmtree(folder / "src/myproj/lab/conf/schedule")
    shutil.rmtree(folder / ".github")


@edit()
def a_template_file_moved(folder):
    git(folder, "mv", "src/myproj/lab/errors.py", "src/myproj/errors.py")


# How files lie on the disk


@edit()
def modes(folder):
    os.chmod(folder / "src/myproj/task.py", 0o755)
    os.chmod(folder / "src/myproj/lab/cli.py", 0o755)
    write(folder, {"run.sh": "#!/bin/sh\n"})
    os.chmod(folder / "run.sh", 0o755)


@edit()
def links(folder):
    (folder / "data").symlink_to("/dev/shm")
    (folder / "notes").symlink_to("src/myproj/trials")
    (folder / "src/myproj/conf/local.yaml").symlink_to("config.yaml")


@edit()
def ends_of_lines_of_windows(folder):
    for name in ("README.md", "Makefile", "pyproject.toml", "src/myproj/lab/cli.py"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@edit()
def no_newline_at_the_end(folder):
    for name in ("Makefile", ".gitignore", "README.md"):
        (folder / name).write_text((folder / name).read_text().rstrip("\n"))


@edit()
def a_submodule(folder):
    other = folder.parent / "other"
    if not other.exists():
        write(other, {"a.txt": "a\n"})
        commit(other, "other")
    git(
        folder,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other),
        "third_party/other",
    )


@edit()
def a_large_life(folder):
    """Everything at once that meets no release."""
    for name in QUIET:
        EDITS[name].apply(folder)


QUIET = (
    *(
        "readme",
        "a_trial",
        "loss",
        "settings",
        "own_groups_and_modules",
        "own_tests",
        "a_dependency",
    ),
    *("tools_for_development", "metadata", "rules_of_ruff", "targets", "hooks"),
    *("arguments_of_the_hook", "ignored", "attributes", "train_py", "modes", "unicode_names"),
)
