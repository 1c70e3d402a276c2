"""A snapshot is the work tree: what is staged is checked like what is not, and links lead nowhere."""

import os

import pytest
from labrig.errors import Refused
from labrig.record.freeze.snapshot import snapshot
from record_package import commit as commit_all
from record_package import freeze, git, make_project, repository, state, tree, write

pytestmark = pytest.mark.usefixtures("no_git_settings")
TOKEN = "ghp_" + "a1" * 18
STAGE = [["add", "-A"], ["add", "-N", "."]]


def skipped(found):
    return {file["path"]: file["reason"] for file in found["skipped"]}


@pytest.mark.parametrize("command", STAGE, ids=" ".join)
@pytest.mark.parametrize("name", ["secret.py", "src/b.py"], ids=["new", "tracked"])
def test_a_staged_token_is_refused(repo, name, command):
    """new-user-log-2, 1."""
    write(repo, {name: f"KEY = '{TOKEN}'\n"})
    git(repo, *command)
    with pytest.raises(Refused, match=rf"{name}:1 looks like a GitHub token"):
        freeze(repo)
    assert name in tree(repo, snapshot(repo, allow=True)["commit"])


@pytest.mark.parametrize("command", STAGE, ids=" ".join)
def test_staged_files_are_left_out_by_size_and_name(repo, command):
    write(repo, {"weights.pt": "x" * 20_001, "fits.pt": "x", ".env": "A=1", "run.log": "x"})
    git(repo, *command)
    git(repo, "add", "-f", "run.log")
    found = freeze(repo, max_file_mb=0.02)
    assert skipped(found) == {"weights.pt": "size", ".env": "secret-name"}
    recorded = tree(repo, found["commit"])
    assert {"fits.pt", "run.log"} <= recorded.keys()
    assert not {"weights.pt", ".env"} & recorded.keys()


def test_an_ignored_file_that_was_staged_by_force_is_left_out_by_size(repo):
    write(repo, {"run.log": "x" * 20_001})
    git(repo, "add", "-f", "run.log")
    assert skipped(freeze(repo, max_file_mb=0.02)) == {"run.log": "size"}


def test_before_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, {"a.py": "1\n", "weights.pt": "x" * 20_001})
    git(tmp_path, "add", "-A")
    found = snapshot(tmp_path, max_file_mb=0.02)
    assert skipped(found) == {"weights.pt": "size"}
    write(tmp_path, {"a.py": TOKEN})
    git(tmp_path, "add", "-A")
    with pytest.raises(Refused, match=r"a\.py:1"):
        snapshot(tmp_path)


def test_committed_files_stay_recorded(repo):
    write(repo, {"weights.pt": "x" * 20_001, ".env": "A=1"})
    commit_all(repo, "on purpose")
    write(repo, {"weights.pt": "y" * 20_001})
    git(repo, "add", "-A")
    found = freeze(repo, max_file_mb=0.02)
    assert skipped(found) == {}
    assert tree(repo, found["commit"])["weights.pt"].startswith("y")


def test_what_was_staged_and_then_changed_is_frozen_as_it_lies_there(repo):
    write(repo, {"new.py": TOKEN, "gone.py": TOKEN, "src/b.py": TOKEN, "a.txt": "staged\n"})
    git(repo, "add", "-A")
    write(repo, {"new.py": "clean\n", "src/b.py": "clean\n"})
    (repo / "gone.py").unlink()
    (repo / "a.txt").unlink()
    recorded = tree(repo, freeze(repo)["commit"])
    assert (recorded["new.py"], recorded["src/b.py"]) == ("clean", "clean")
    assert not {"gone.py", "a.txt"} & recorded.keys()


def test_what_was_staged_clean_and_then_got_a_token_is_refused(repo):
    write(repo, {"new.py": "clean\n"})
    git(repo, "add", "-A")
    write(repo, {"new.py": TOKEN})
    with pytest.raises(Refused, match=r"new\.py:1"):
        freeze(repo)


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_staged_token_that_a_flag_hides_is_refused(repo, flag):
    write(repo, {"new.py": TOKEN})
    git(repo, "add", "-A")
    git(repo, "update-index", flag, "new.py")
    with pytest.raises(Refused, match=r"new\.py:1"):
        freeze(repo)
    (repo / "new.py").unlink()
    with pytest.raises(Refused, match=r"new\.py:1"):
        freeze(repo)


def test_a_submodule_that_is_no_longer_staged_is_not_recorded(repo, tmp_path):
    inner = repository(tmp_path / "inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub")
    git(repo, "commit", "-q", "-m", "submodule")
    git(repo, "rm", "-q", "--cached", "sub")
    found = freeze(repo)
    assert "sub" not in tree(repo, found["commit"])
    assert skipped(found) == {"sub/": "nested-repository"}


def test_a_deletion_of_a_token_is_no_token(repo):
    write(repo, {"old.py": TOKEN})
    commit_all(repo, "by mistake")
    (repo / "old.py").unlink()
    assert "old.py" not in tree(repo, freeze(repo)["commit"])
    git(repo, "rm", "-q", "--cached", "old.py")
    assert "old.py" not in tree(repo, freeze(repo)["commit"])


def as_git_adds(folder):
    """The tree that `git add -A` would stage."""
    git(folder, "add", "-A")
    return git(folder, "write-tree")


@pytest.mark.parametrize("target", ["/etc", "elsewhere", "gone"])
@pytest.mark.parametrize("staged", [False, True])
def test_a_directory_that_a_link_replaced_is_frozen_as_a_link(repo, tmp_path, target, staged):
    """h-dirlink, h-d2s: what the link leads to is never read."""
    write(repo, {"conf/passwd": "tracked", "conf/deep/x.py": "tracked", "file": "x"})
    commit_all(repo, "directories")
    outside = tmp_path / target if target != "/etc" else "/etc"
    (repo / "conf").rename(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere", {"passwd": TOKEN, "new.py": TOKEN})
    (repo / "conf").symlink_to(outside)
    (repo / "file").unlink()
    write(repo, {"file/inside": "x"})
    if staged:
        git(repo, "add", "-A")
    before = state(repo)
    found = snapshot(repo)
    assert state(repo) == before
    recorded = tree(repo, found["commit"])
    assert recorded["conf"] == f"120000 {outside}"
    assert recorded["file/inside"] == "x"
    assert not [name for name in recorded if name.startswith("conf/")]
    assert found["tree"] == as_git_adds(repo)


def test_a_trial_that_a_link_replaced_is_frozen_as_a_link(tmp_path):
    project = make_project(tmp_path / "p")
    package = project.root / "src/myproj"
    write(package, {"trials/moved/model.py": "VALUE = 1\n"})
    commit_all(project.root, "a trial")
    (package / "trials/moved").rename(tmp_path / "moved")
    (package / "trials/moved").symlink_to(tmp_path / "moved")
    found = snapshot(project.root)
    assert tree(project.root, found["commit"])["src/myproj/trials/moved"].startswith("120000 ")


def test_a_submodule_that_a_link_replaced_is_frozen_as_a_link(repo, tmp_path):
    inner = repository(tmp_path / "inner")
    other = repository(tmp_path / "other", secret__py=TOKEN)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub")
    git(repo, "commit", "-q", "-m", "submodule")
    (repo / "sub").rename(tmp_path / "sub")
    (repo / "sub").symlink_to(other)
    found = freeze(repo)
    assert tree(repo, found["commit"])["sub"] == f"120000 {other}"
    assert git(other, "for-each-ref", "refs/runs") == ""


def test_a_link_that_became_a_directory_and_a_file_that_became_a_link(repo):
    (repo / "link").symlink_to("src")
    commit_all(repo, "link")
    (repo / "link").unlink()
    write(repo, {"link/inside.py": "x"})
    (repo / "a.txt").unlink()
    (repo / "a.txt").symlink_to("/etc/passwd")
    found = freeze(repo)
    assert tree(repo, found["commit"])["link/inside.py"] == "x"
    assert tree(repo, found["commit"])["a.txt"] == "120000 /etc/passwd"
    assert found["tree"] == as_git_adds(repo)


@pytest.mark.parametrize("setting", ["core.trustCtime=false", "core.checkStat=minimal", None])
def test_an_edit_of_the_same_size_and_time_in_the_second_of_git_add(repo, setting):
    """git compares whole seconds of the last change."""
    if setting:
        git(repo, "config", *setting.split("="))
    path = repo / "src/b.py"
    for number in range(1, 6):
        path.write_text("print(0)\n")
        os.utime(path, ns=(10**18, 10**18))
        git(repo, "add", "src/b.py")
        path.write_text(f"print({number})\n")
        os.utime(path, ns=(10**18, 10**18))
        assert tree(repo, snapshot(repo)["commit"])["src/b.py"] == f"print({number})"
