"""`copier update` brings the new machinery and touches nothing of the user's: a thin slice of tests/test_updates.py."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import copier
import pytest
import yaml
from conftest import call, equip
from project_edits import EDITS, append, replace
from releases import DELETED, FIRST, LAST, LATE_SEED, make_history, tags
from repositories import commit, git
from update_rules import (
    OPTIONS,
    broken_rules,
    compile_each_text_once,  # noqa: F401
    contents,
    fresh_contents,
    render,
    solve,
    update,
)


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Seven releases of the whole template."""
    return make_history(tmp_path_factory.mktemp("releases") / "template", small=False)


@pytest.fixture(scope="module")
def few_files(tmp_path_factory):
    """The same of a template without most of lab/."""
    return make_history(tmp_path_factory.mktemp("few") / "template", small=True)


@pytest.fixture(scope="module")
def fresh(few_files, tmp_path_factory):
    """tag -> the contents of a new project, with few files."""
    folder = tmp_path_factory.mktemp("fresh")
    return {tag: fresh_contents(few_files, tag, folder / tag / "myproj") for tag in tags()}


@pytest.fixture
def old(releases, tmp_path):
    """A project of 0.1.0, set up."""
    return equip(render(releases, FIRST, tmp_path / "myproj"))


@pytest.fixture
def small_old(few_files, tmp_path):
    """The same with few files, not set up."""
    folder = render(few_files, FIRST, tmp_path / "myproj")
    commit(folder, "start")
    return folder


@pytest.mark.slow
def test_six_releases_in_three_steps_in_a_directory_of_a_larger_repository(small_old, fresh):
    edit = EDITS["a_large_life"]
    edit.apply(small_old)
    (small_old / ".git").rename(small_old.parent / ".git")
    (small_old.parent / "paper.tex").write_text("Mine.\n")
    commit(small_old.parent, "one directory up")
    for old_tag, tag in pairwise(tags()[::2]):
        before = contents(small_old)
        update(small_old, tag)
        assert broken_rules(before, contents(small_old), fresh[old_tag], fresh[tag], edit) == []
        assert solve(small_old) == set()


@pytest.mark.parametrize("name", ["nothing", "template_files_deleted", "a_trial_deleted"])
def test_six_releases_at_once(small_old, fresh, name):
    edit = EDITS[name]
    edit.apply(small_old)
    git(small_old, "add", "-A")
    git(small_old, "commit", "-q", "--allow-empty", "-m", name)
    before = contents(small_old)
    update(small_old, LAST)
    assert broken_rules(before, contents(small_old), fresh[FIRST], fresh[LAST], edit) == []
    assert solve(small_old) == set()


def test_the_rules_find_what_an_update_may_do_wrong(small_old, fresh):
    """The checks of the other tests, on updates that went wrong."""
    edit = EDITS["nothing"]
    old, new = fresh[FIRST], fresh[LAST]
    replace(small_old, "README.md", "## First commands", "## Mine")
    replace(small_old, "Makefile", "# Yours", "# Mine\n# Yours")
    before = {
        name: text for name, text in contents(small_old).items() if name != "tests/test_data.py"
    }
    good = new | {name: before[name] for name in ("README.md", "CITATION.cff", "Makefile")}
    good = {
        name: before.get(name, text)
        if name.startswith(("tests/test", "src/myproj/conf", "src/myproj/task"))
        else text
        for name, text in good.items()
    }
    del good["tests/test_data.py"], good[LATE_SEED]
    assert broken_rules(before, good, old, new, edit) == []
    wrong = {
        "a seed changed": good | {"README.md": new["README.md"]},
        "a user's line lost": good | {"Makefile": new["Makefile"]},
        "a dropped seed deleted": {name: good[name] for name in good if name != "CITATION.cff"},
        "a deleted file came back": good | {"tests/test_data.py": b""},
        "nothing arrived": good | {"src/myproj/lab/cli.py": old["src/myproj/lab/cli.py"]},
        "marks": good | {"Makefile": good["Makefile"] + b"<<<<<<< before updating\n"},
        "left behind": good | {"Makefile.rej": b""},
        "a file too many": good | {DELETED: old[DELETED]},
    }
    assert [
        name for name, after in wrong.items() if not broken_rules(before, after, old, new, edit)
    ] == []


def test_recopy_keeps_the_users_files(small_old):
    replace(small_old, "README.md", "## First commands", "My thesis.\n\n## First commands")
    replace(small_old, "src/myproj/task.py", '"""', '"""My own: ')
    commit(small_old, "mine")
    before = contents(small_old)
    copier.run_recopy(small_old, vcs_ref=LAST, **OPTIONS)
    after = contents(small_old)
    for name in ("README.md", "src/myproj/task.py", "src/myproj/conf/config.yaml"):
        assert after[name] == before[name]
    assert b"WIDTH = 79" in after["src/myproj/lab/cli.py"]


def test_uncommitted_work_is_refused_with_what_to_do(small_old):
    (small_old / "notes.txt").write_text("not committed\n")
    before = contents(small_old)
    done = run_copier(small_old, "update", "--defaults")
    assert done.returncode != 0
    assert "Please commit or stash your local changes" in done.stderr
    assert contents(small_old) == before


@pytest.mark.slow
def test_check_update_says_whether_there_is_one(small_old):
    assert run_copier(small_old, "check-update", "--quiet").returncode == 2
    update(small_old, LAST)
    assert run_copier(small_old, "check-update", "--quiet").returncode == 0


def run_copier(folder, *words):
    command = [sys.executable, "-m", "copier", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_renamed_package_is_updated_under_its_new_name(old, releases, tmp_path):
    (old / "src/myproj/net.py").write_text("from myproj.lab import errors\nfrom .lab import env\n")
    (old / "src/myproj/conf/net.yaml").write_text("_target_: myproj.net.Net\nnote: myproj.\n")
    commit(old, "mine")
    text = call(old, "lab", "rename", "nova")
    assert "src/myproj is src/nova now" in text
    commit(old, "rename")
    assert (old / "src/nova/net.py").read_text().startswith("from nova.lab import errors\n")
    assert (old / "src/nova/conf/net.yaml").read_text() == "_target_: nova.net.Net\nnote: myproj.\n"
    assert not (old / "src/myproj").exists()
    names = {"README.md", "pyproject.toml", "CITATION.cff", "LICENSE", ".copier-answers.yml"}
    for name in git(old, "grep", "-lw", "myproj", "--", ".", ":!docs/lab").split():
        assert name in names or name.endswith("net.yaml"), "these have the project's name"
    assert "myproj." not in (old / "pyproject.toml").read_text().replace("of myproj", "")
    update(old, LAST)
    assert git(old, "ls-files", "-u") == ""
    named = {"package_name": "nova", "project_name": "myproj"}
    other = tmp_path / "other/myproj"
    copier.run_copy(str(releases), other, vcs_ref=LAST, data=named, **OPTIONS)
    git(other, "init", "-q")
    before, after = contents(other), contents(old)
    for name in ("pyproject.toml", ".pre-commit-config.yaml", ".copier-answers.yml"):
        assert after[name] == before[name]
    assert {name: text for name, text in after.items() if "/lab/" in name} == {
        name: text for name, text in before.items() if "/lab/" in name
    }


@pytest.mark.slow
def test_what_an_update_did_is_reported_in_words(old, releases, capfd):
    replace(old, ".gitignore", "/lightning_logs\n", "/lightning_logs\n/mine\n")
    append(old, DELETED, "# my own\n")
    commit(old, "mine")
    copier.run_update(old, vcs_ref=LAST, **OPTIONS | {"quiet": False})
    said = capfd.readouterr().err
    assert "Choose between the lines after <<<<<<< and those before >>>>>>>" in said
    assert f"docs/update.md of {releases}" in said
    commands = [
        line.partition("#")[0].strip() for line in said.splitlines() if line.startswith("  git ")
    ]
    assert len(commands) == 2
    assert git(old, *commands[0].split()[1:]) == ".gitignore"
    text = call(old, "make", "setup", f"PYTHON={sys.executable}", rc=2)
    assert "hold two versions of some lines:\n  .gitignore\n" in text
    assert ".gitignore:" in call(old, "python", "-m", "myproj.lab.hooks", ".gitignore", rc=1)
    solve_without_commit(old)
    assert git(old, *commands[0].split()[1:]) == ""
    git(old, "add", "--all")
    text = call(old, "python", "-m", "myproj.lab.hooks", ".copier-answers.yml")
    assert "this update removes files that you had edited" in text
    assert f"git show HEAD:./{DELETED}" in text
    assert "# my own" in git(old, "show", f"HEAD:./{DELETED}")


def solve_without_commit(folder):
    path = folder / ".gitignore"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(line for line in lines if line[:7] not in ("<<<<<<<", "=======", ">>>>>>>"))
    )
    git(folder, "add", ".gitignore")


@pytest.mark.release
def test_a_project_with_a_life_of_its_own_works_after_the_update(old):
    EDITS["a_large_life"].apply(old)
    commit(old, "my work")
    update(old, LAST)
    assert git(old, "ls-files", "-u") == ""
    keys = yaml.safe_load((old / "src/myproj/lab/conf/lab.yaml").read_text(encoding="utf-8"))
    assert keys["seed"] == 1
    assert "every_minutes" in call(old, "lab", "config", "trial=wide")
    git(old, "add", "--all")
    call(old, "python", "-m", "myproj.lab.hooks", "--skip=style")
    assert " passed" in call(old, "make", "test")
    assert Path(old, "src/myproj/trials/wide").is_dir()
