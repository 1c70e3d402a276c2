"""`copier update` brings what is new and touches nothing of the user's: a thin slice of test_updates.py."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import copier
import pytest
from labrig.cluster.doctor import template as rendering
from labrig.cluster.doctor.template import changed_files
from labrig.errors import Failed
from project_edits import EDITS, append, replace
from projects import call, equip
from releases import DELETED, FIRST, LAST, LATE_SEED, make_history, tags
from rendering import copy_template, release
from repositories import commit, git, write
from small_environment import small_environment
from update_rules import (
    ANSWERS,
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
    """Seven releases of the template."""
    return make_history(tmp_path_factory.mktemp("releases") / "template")


@pytest.fixture(scope="module")
def fresh(releases, tmp_path_factory):
    """tag -> the contents of a new project."""
    folder = tmp_path_factory.mktemp("fresh")
    return {tag: fresh_contents(releases, tag, folder / tag / "myproj") for tag in tags()}


@pytest.fixture
def old(releases, tmp_path):
    """A project of 0.1.0, not set up."""
    folder = render(releases, FIRST, tmp_path / "myproj")
    commit(folder, "start")
    return folder


@pytest.fixture
def ready(releases, tmp_path):
    """The same, set up."""
    return equip(render(releases, FIRST, tmp_path / "ready/myproj"))


@pytest.mark.slow
def test_six_releases_in_three_steps_in_a_directory_of_a_larger_repository(old, fresh):
    edit = EDITS["a_large_life"]
    edit.apply(old)
    (old / ".git").rename(old.parent / ".git")
    (old.parent / "paper.tex").write_text("Mine.\n")
    commit(old.parent, "one directory up")
    for old_tag, tag in pairwise(tags()[::2]):
        before = contents(old)
        update(old, tag)
        assert broken_rules(before, contents(old), fresh[old_tag], fresh[tag], edit) == []
        assert solve(old) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nothing", "template_files_deleted", "a_trial_deleted", "bootstrap_at_the_same_line"]
)
def test_six_releases_at_once(old, fresh, name):
    edit = EDITS[name]
    edit.apply(old)
    git(old, "add", "-A")
    git(old, "commit", "-q", "--allow-empty", "-m", name)
    before = contents(old)
    update(old, LAST)
    assert broken_rules(before, contents(old), fresh[FIRST], fresh[LAST], edit) == []
    assert solve(old) == edit.conflicts


@pytest.mark.slow
def test_the_rules_find_what_an_update_may_do_wrong(old, fresh):
    """The checks of the other tests, on updates that went wrong."""
    edit = EDITS["nothing"]
    first, last = fresh[FIRST], fresh[LAST]
    replace(old, "README.md", "## First commands", "## Mine")
    replace(old, "Makefile", "# Yours", "# Mine\n# Yours")
    before = {name: text for name, text in contents(old).items() if name != "tests/test_data.py"}
    good = last | {name: before[name] for name in ("README.md", "CITATION.cff", "Makefile")}
    where = b".PHONY: where\nwhere:\n\t@pwd\n"
    good["Makefile"] = good["Makefile"].replace(b"\n\n\n# Mine", b"\n" + where + b"\n\n\n# Mine")
    good = {
        name: before.get(name, text)
        if name.startswith(("tests/test", "src/myproj/conf", "src/myproj/task"))
        else text
        for name, text in good.items()
    }
    del good["tests/test_data.py"], good[LATE_SEED]
    assert broken_rules(before, good, first, last, edit) == []
    wrong = {
        "a seed changed": good | {"README.md": last["README.md"]},
        "a user's line lost": good | {"Makefile": last["Makefile"]},
        "the template's line lost": good | {"Makefile": before["Makefile"]},
        "a dropped seed deleted": {name: good[name] for name in good if name != "CITATION.cff"},
        "a deleted file came back": good | {"tests/test_data.py": b""},
        "nothing arrived": good | {"tools/bootstrap.py": first["tools/bootstrap.py"]},
        "marks": good | {"Makefile": good["Makefile"] + b"<<<<<<< before updating\n"},
        "left behind": good | {"Makefile.rej": b""},
        "a file too many": good | {DELETED: first[DELETED]},
    }
    assert [
        name for name, after in wrong.items() if not broken_rules(before, after, first, last, edit)
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("life", ["nothing", "a_large_life"])
def test_an_update_that_only_brings_a_library_touches_two_files(tmp_path, life):
    template = copy_template(tmp_path / "template")
    release(template, "0.1.0")
    project = render(template, "0.1.0", tmp_path / "myproj")
    EDITS[life].apply(project)
    commit(project, "start")
    before = contents(project)
    pins = []
    for ref in ("0.2.0", "HEAD"):  # a release, and a commit after it
        write(template, {"src/labrig/news.py": f'"""New in {ref}."""\n'})
        commit(template, ref)
        if ref != "HEAD":
            git(template, "tag", ref)
        update(project, ref)
        after = contents(project)
        changed = {name for name in before | after if before.get(name) != after.get(name)}
        assert changed == {"pyproject.toml", ANSWERS}
        pin = f"@{git(template, 'rev-parse', 'HEAD')}"
        assert pin in after["pyproject.toml"].decode()
        pins.append(pin)
        commit(project, ref)
    assert len({*pins}) == 2


def test_recopy_keeps_the_users_files(old):
    replace(old, "README.md", "## First commands", "My thesis.\n\n## First commands")
    replace(old, "src/myproj/task.py", '"""', '"""My own: ')
    commit(old, "mine")
    before = contents(old)
    copier.run_recopy(old, vcs_ref=LAST, **OPTIONS)
    after = contents(old)
    for name in ("README.md", "src/myproj/task.py", "src/myproj/conf/config.yaml"):
        assert after[name] == before[name]
    assert b"  # or pip\n" in after["tools/bootstrap.py"]


@pytest.mark.slow
def test_one_file_of_the_template_is_taken_back(old, fresh, monkeypatch):
    """The command of docs/update.md; lab doctor names the file."""
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=":")
    append(old, "tools/bootstrap.py", "# mine\n")
    append(old, "Makefile", "# mine\n")
    commit(old, "mine")
    assert [file.path for file in changed_files(old)] == ["tools/bootstrap.py"]
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "TIMEOUT_S", 0.001)
        with pytest.raises(Failed, match="it did not come within"):
            changed_files(old)
    before = contents(old)
    only = ["--exclude", "**", "--exclude", "!/tools/bootstrap.py"]
    run_copier(old, "recopy", "--defaults", "--overwrite", "--vcs-ref", FIRST, *only)
    assert changed_files(old) == []
    after = contents(old)
    assert {name for name in before if before[name] != after[name]} == {"tools/bootstrap.py"}
    assert after["tools/bootstrap.py"] == fresh[FIRST]["tools/bootstrap.py"]


def test_uncommitted_work_is_refused_with_what_to_do(old):
    (old / "notes.txt").write_text("not committed\n")
    before = contents(old)
    done = run_copier(old, "update", "--defaults")
    assert done.returncode != 0
    assert "Please commit or stash your local changes" in done.stderr
    assert contents(old) == before


@pytest.mark.slow
def test_check_update_says_whether_there_is_one(old):
    assert run_copier(old, "check-update", "--quiet").returncode == 2
    update(old, LAST)
    assert run_copier(old, "check-update", "--quiet").returncode == 0


def run_copier(folder, *words):
    command = [sys.executable, "-m", "copier", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def rename_package(folder, old, new):
    """The first three steps of docs/update.md, by hand."""
    git(folder, "mv", f"src/{old}", f"src/{new}")
    replace(folder, "pyproject.toml", f'name = "{old}"', f'name = "{new}"')
    replace(folder, "pyproject.toml", f'"{old}[lab]"', f'"{new}[lab]"')
    replace(folder, "pyproject.toml", f'package = "{old}"', f'package = "{new}"')
    replace(folder, "pyproject.toml", f'"src/{old}"', f'"src/{new}"')
    replace(folder, ANSWERS, f"package_name: {old}", f"package_name: {new}")
    replace(folder, "src/nova/net.py", f"from {old} import", f"from {new} import")


@pytest.mark.slow
def test_a_renamed_package_is_updated_under_its_new_name(old, releases, tmp_path):
    write(old, {"src/myproj/net.py": "from myproj import task  # noqa: F401\n"})
    equip(old)
    rename_package(old, "myproj", "nova")
    commit(old, "rename")
    assert "Failed" not in call(old, "make", "check")
    call(old, "lab", "check", "trial=baseline", "--no-batch")
    assert git(old, "grep", "-lw", "myproj", "--", "src", "tests", check=False) == ""
    update(old, LAST)
    assert git(old, "ls-files", "-u") == ""
    assert not (old / "src/myproj").exists()
    named = {"package_name": "nova", "project_name": "myproj"}
    other = tmp_path / "other/myproj"
    copier.run_copy(str(releases), other, vcs_ref=LAST, data=named, **OPTIONS)
    git(other, "init", "-q")
    before, after = contents(other), contents(old)
    for name in ("pyproject.toml", ".pre-commit-config.yaml", ANSWERS, "src/nova/train.py"):
        assert after[name] == before[name]


@pytest.mark.slow
def test_what_an_update_did_is_reported_in_words(ready, releases, tmp_path, capfd):
    replace(ready, ".gitignore", "/lightning_logs\n", "/lightning_logs\n/mine\n")
    append(ready, DELETED, "# my own\n")
    commit(ready, "mine")
    copier.run_update(ready, vcs_ref=LAST, **OPTIONS | {"quiet": False})
    said = capfd.readouterr().err
    assert "Choose between the lines after <<<<<<< and those before >>>>>>>" in said
    assert f"docs/update.md of {releases}" in said
    commands = [
        line.partition("#")[0].strip() for line in said.splitlines() if line.startswith("  git ")
    ]
    assert len(commands) == 2
    assert git(ready, *commands[0].split()[1:]) == ".gitignore"
    use_environment_of_pin(ready, tmp_path / "environment")
    text = call(ready, "make", "setup", f"PYTHON={sys.executable}", rc=2)
    assert "hold two versions of some lines:\n  .gitignore\n" in text
    assert ".gitignore:" in call(ready, "lab", "hooks", ".gitignore", rc=1)
    solve_without_commit(ready)
    assert git(ready, *commands[0].split()[1:]) == ""
    assert "# my own" in git(ready, "show", f"HEAD:./{DELETED}"), "as docs/update.md says"


def use_environment_of_pin(folder, environment):
    """An environment that has labrig as the project pins it: the bootstrap installs nothing."""
    small_environment(environment)
    (folder / ".venv").unlink()
    (folder / ".venv").symlink_to(environment)
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    pin = text.partition('"labrig[train]')[2].partition('"')[0]
    (environment / "lab-library.txt").write_text(f"labrig {pin.strip()}", encoding="utf-8")


def solve_without_commit(folder):
    path = folder / ".gitignore"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(line for line in lines if line[:7] not in ("<<<<<<<", "=======", ">>>>>>>"))
    )
    git(folder, "add", ".gitignore")


@pytest.mark.release
def test_a_project_with_a_life_of_its_own_works_after_the_update(ready):
    EDITS["a_large_life"].apply(ready)
    commit(ready, "my work")
    update(ready, LAST)
    assert git(ready, "ls-files", "-u") == ""
    assert "max_epochs: 2" in call(ready, "lab", "config", "trial=wide")
    git(ready, "add", "--all")
    call(ready, "lab", "hooks", "--skip=style")
    assert " passed" in call(ready, "make", "test")
    assert Path(ready, "src/myproj/trials/wide").is_dir()
