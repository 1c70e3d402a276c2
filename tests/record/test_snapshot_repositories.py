"""A snapshot in all kinds of repository: none, bare, shallow, partial, sparse, read-only, with submodules."""

import os
import tempfile
from pathlib import Path

import pytest
from labrig.errors import Refused
from labrig.record.freeze.git import NoRepository
from labrig.record.freeze.snapshot import snapshot
from record_package import freeze, git, repository, state, tree, unprivileged, write

pytestmark = pytest.mark.usefixtures("no_git_settings")


@pytest.fixture
def open_repo():
    """A repository that another user may own: pytest's own directories are closed to others."""
    with tempfile.TemporaryDirectory(prefix="snapshot-") as folder:
        os.chmod(folder, 0o755)
        yield repository(Path(folder) / "repo")


def test_no_repository(tmp_path):
    with pytest.raises(NoRepository, match="is not a git repository") as refused:
        snapshot(tmp_path)
    assert refused.value.exit_code == 4


def test_no_git(repo, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoRepository, match="git is not installed"):
        snapshot(repo)


def test_before_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, {"a.py": "x"})
    found = freeze(tmp_path)
    assert (found["head"], found["branch"], found["dirty"]) == (None, "main", True)
    assert tree(tmp_path, found["commit"]) == {"a.py": "x"}
    assert freeze(tmp_path)["commit"] == found["commit"]


def test_detached_head(repo):
    git(repo, "checkout", "-q", "--detach")
    write(repo, {"a.txt": "two\n"})
    found = freeze(repo)
    assert found["branch"] is None
    assert tree(repo, found["commit"])["a.txt"] == "two"


def test_bare_repository_and_its_worktree(repo, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", repo, "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", tmp_path / "linked", "-b", "side")
    write(tmp_path / "linked", {"a.txt": "two\n"})
    found = freeze(tmp_path / "linked")
    assert found["branch"] == "side"
    assert git(tmp_path / "bare.git", "rev-parse", found["ref"]) == found["commit"]
    with pytest.raises(NoRepository, match="bare"):
        snapshot(tmp_path / "bare.git")


def test_shallow_clone_can_push_its_snapshots(repo, tmp_path):
    write(repo, {"a.txt": "two\n"})
    git(repo, "commit", "-q", "-am", "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    write(tmp_path / "shallow", {"a.txt": "three\n"})
    found = freeze(tmp_path / "shallow")
    assert found["remote"] == f"file://{repo}"
    git(tmp_path / "shallow", "push", "-q", "origin", f"{found['ref']}:{found['ref']}")
    assert tree(repo, found["ref"])["a.txt"] == "three"


def test_partial_clone(repo, tmp_path):
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
    write(tmp_path / "partial", {"a.txt": "three\n"})
    assert tree(tmp_path / "partial", freeze(tmp_path / "partial")["commit"])["a.txt"] == "three"


@pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
def test_sparse_checkout_keeps_absent_files(tmp_path, index):
    repo = repository(tmp_path / "repo", **{"docs/x__md": "doc", "docs/deep/y__md": "doc"})
    git(repo, "sparse-checkout", "set", "--cone", index, "src")
    assert not (repo / "docs").exists()
    write(repo, {"src/b.py": "print(2)\n", "docs/x.md": "written there all the same"})
    found = tree(repo, freeze(repo)["commit"])
    assert found == {
        ".gitignore": "ignored/\n*.log",
        "a.txt": "one",
        "src/b.py": "print(2)",
        "docs/x.md": "written there all the same",
        "docs/deep/y.md": "doc",
    }


@pytest.fixture
def outer(repo, tmp_path):
    """A repository with the submodule `lib`."""
    outer = repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", repo, "lib")
    git(outer, "commit", "-q", "-m", "with lib")
    return outer


def test_submodule_as_committed(outer):
    found = freeze(outer)
    assert not found["dirty"]
    assert found["submodules"][0]["path"] == "lib"
    assert found["submodules"][0]["commit"] == git(outer / "lib", "rev-parse", "HEAD")


def test_edited_submodule_is_frozen_too(outer):
    write(outer / "lib", {"a.txt": "edited inside\n", "new.py": "x"})
    before = state(outer / "lib")
    found = freeze(outer)
    inner = found["submodules"][0]
    assert state(outer / "lib") == before
    assert (found["dirty"], inner["dirty"], inner["n_untracked"]) == (True, True, 1)
    assert tree(outer, found["commit"])["lib"] == f"160000 {inner['commit']}"
    assert tree(outer / "lib", inner["ref"])["a.txt"] == "edited inside"
    assert freeze(outer)["commit"] == found["commit"]


def test_submodule_on_another_commit_and_not_checked_out(outer, tmp_path):
    write(outer / "lib", {"a.txt": "committed inside\n"})
    git(outer / "lib", "commit", "-q", "-am", "inside")
    commit = git(outer / "lib", "rev-parse", "HEAD")
    assert tree(outer, freeze(outer)["commit"])["lib"] == f"160000 {commit}"
    git(tmp_path, "clone", "-q", outer, "plain")
    found = freeze(tmp_path / "plain")
    assert not found["dirty"]
    assert found["submodules"][0] == {
        "path": "lib",
        "dirty": False,
        "note": "not checked out",
    }


def test_nested_repository_is_reported(repo):
    repository(repo / "vendor/nested")
    found = freeze(repo)
    assert {"path": "vendor/nested/", "reason": "nested-repository"} in found["skipped"]
    assert not any(path.startswith("vendor") for path in tree(repo, found["commit"]))


def test_clones_do_not_receive_snapshots_unless_asked(repo, tmp_path):
    write(repo, {"a.txt": "two\n"})
    found = freeze(repo)
    git(tmp_path, "clone", "-q", f"file://{repo}", "clone")
    assert found["commit"] not in git(tmp_path / "clone", "for-each-ref")
    git(tmp_path / "clone", "fetch", "-q", "origin", "refs/runs/*:refs/runs/*")
    assert tree(tmp_path / "clone", found["ref"])["a.txt"] == "two"


def test_survives_gc_and_a_deleted_branch_until_its_ref_goes(repo):
    git(repo, "checkout", "-q", "-b", "idea")
    write(repo, {"a.txt": "idea\n"})
    git(repo, "commit", "-q", "-am", "idea")
    write(repo, {"a.txt": "idea, edited\n"})
    found = freeze(repo)
    parent = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "-f", "main")
    git(repo, "branch", "-D", "idea")
    expire = ("reflog", "expire", "--expire=now", "--all"), ("gc", "-q", "--prune=now")
    for command in expire:
        git(repo, *command)
    assert tree(repo, found["commit"])["a.txt"] == "idea, edited"
    assert tree(repo, parent)["a.txt"] == "idea"
    git(repo, "update-ref", "-d", found["ref"])
    for command in expire:
        git(repo, *command)
    assert git(repo, "cat-file", "-t", found["commit"], check=False) == ""


def test_remote_is_recorded_without_credentials(repo):
    git(repo, "remote", "add", "origin", "https://me:hunter22@example.org/x.git")
    assert freeze(repo)["remote"] == "https://example.org/x.git"
    git(repo, "remote", "set-url", "origin", "git@example.org:x.git")
    assert freeze(repo)["remote"] == "git@example.org:x.git"


def test_inherited_git_variables_do_not_mislead(repo, tmp_path, monkeypatch):
    other = repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    commit = snapshot(repo)["commit"]
    monkeypatch.undo()
    assert commit == git(repo, "rev-parse", "HEAD")


def test_unreadable_files_are_refused(open_repo):
    write(open_repo, {"closed.py": "x"})
    (open_repo / "closed.py").chmod(0)
    with pytest.raises(Refused, match=r"closed\.py"):
        unprivileged(open_repo, lambda: snapshot(open_repo))
    (open_repo / "closed.py").unlink()
    write(open_repo, {"closed/inside.py": "x"})
    (open_repo / "closed").chmod(0)
    with pytest.raises(Refused, match="could not open directory 'closed/'"):
        unprivileged(open_repo, lambda: snapshot(open_repo))
    (open_repo / "closed").chmod(0o755)
    assert unprivileged(open_repo, lambda: snapshot(open_repo))["n_untracked"] == 1


def test_read_only_repository_is_refused(open_repo):
    write(open_repo, {"a.txt": "two\n"})
    unprivileged(open_repo, lambda: None)
    for path in (open_repo / ".git").rglob("*"):
        path.chmod(path.stat().st_mode & ~0o222)
    (open_repo / ".git").chmod(0o555)
    with pytest.raises(Refused, match="permission") as refused:
        unprivileged(open_repo, lambda: snapshot(open_repo))
    assert refused.value.exit_code == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_somebody_elses_repository_is_refused_with_the_line_to_type(open_repo):
    for path in (open_repo, *open_repo.rglob("*")):
        os.chown(path, 12345, 12345)
    with pytest.raises(Refused, match=r"git config --global --add safe\.directory"):
        snapshot(open_repo)
