"""A snapshot holds the work tree as it is, the same each time, and leaves the user's git as it was."""

import os
import stat
import subprocess
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress

import pytest
from labrig.errors import Refused
from labrig.record.freeze.snapshot import snapshot
from record_package import freeze, git, state, tree, write

pytestmark = pytest.mark.usefixtures("no_git_settings")


def test_clean_tree_is_head(repo):
    found = freeze(repo)
    assert found["commit"] == git(repo, "rev-parse", "HEAD")
    assert (found["dirty"], found["n_changed"], found["n_untracked"]) == (False, 0, 0)
    assert found["branch"] == "main"


def test_holds_tracked_and_untracked_without_ignored_and_deleted(repo):
    write(repo, {"a.txt": "two\n", "new dir/é ü.py": "x", "ignored/big": "no", "run.log": "no"})
    (repo / "src/b.py").unlink()
    os.mkfifo(repo / "pipe")
    found = freeze(repo)
    assert tree(repo, found["commit"]) == {
        ".gitignore": "ignored/\n*.log",
        "a.txt": "two",
        "new dir/é ü.py": "x",
    }
    assert found["dirty"]
    assert git(repo, "rev-parse", f"{found['commit']}^") == git(repo, "rev-parse", "HEAD")
    assert (found["n_changed"], found["n_untracked"]) == (2, 1)


def test_staged_and_unstaged_edits(repo):
    write(repo, {"a.txt": "staged\n", "new.py": "staged\n"})
    git(repo, "add", "-A")
    write(repo, {"new.py": "edited since\n"})
    found = tree(repo, freeze(repo)["commit"])
    assert (found["a.txt"], found["new.py"]) == ("staged", "edited since")


def test_file_becomes_directory_and_back(repo):
    (repo / "a.txt").unlink()
    write(repo, {"a.txt/inside": "x"})
    (repo / "src/b.py").unlink()
    (repo / "src").rmdir()
    write(repo, {"src": "now a file"})
    assert tree(repo, freeze(repo)["commit"]).keys() == {".gitignore", "a.txt/inside", "src"}


def test_names_that_are_no_utf8_or_have_newlines(repo):
    for name in (b"\xff\xfe.py", b"two\nlines.py"):
        (repo / os.fsdecode(name)).write_text("x")
    freeze(repo)
    names = git(repo, "ls-tree", "-r", "--name-only", freeze(repo)["commit"])
    assert '"\\377\\376.py"' in names
    assert '"two\\nlines.py"' in names


def test_links_and_modes(repo):
    (repo / "absolute").symlink_to("/nowhere/at/all")
    (repo / "relative").symlink_to("src/b.py")
    (repo / "a.txt").chmod(0o755)
    found = freeze(repo)["commit"]
    assert tree(repo, found)["absolute"] == "120000 /nowhere/at/all"
    assert tree(repo, found)["relative"] == "120000 src/b.py"
    assert git(repo, "ls-tree", found, "a.txt").startswith("100755")


def test_from_a_subdirectory_the_whole_tree(repo):
    write(repo, {"new.py": "x"})
    found = freeze(repo)
    again = snapshot(repo / "src")
    assert (again["commit"], again["prefix"]) == (found["commit"], "src/")


@pytest.mark.slow
def test_same_size_edit_in_the_second_of_git_add(repo):
    for text in [f"{n:04}\n" for n in range(20)]:
        write(repo, {"a.txt": "....\n"})
        git(repo, "add", "a.txt")
        write(repo, {"a.txt": text})
        assert tree(repo, snapshot(repo)["commit"])["a.txt"] == text.strip()


def test_hidden_edits_and_flags(repo):
    git(repo, "update-index", "--assume-unchanged", "a.txt")
    git(repo, "update-index", "--skip-worktree", "src/b.py")
    write(repo, {"a.txt": "hidden\n", "src/b.py": "hidden\n"})
    found = tree(repo, freeze(repo)["commit"])
    assert (found["a.txt"], found["src/b.py"]) == ("hidden", "hidden")
    assert git(repo, "ls-files", "-v", "a.txt", "src/b.py") == "h a.txt\nS src/b.py"


def test_while_the_index_is_locked(repo):
    (repo / ".git/index.lock").write_text("")
    write(repo, {"a.txt": "two\n"})
    before = (repo / ".git/index").read_bytes()
    found = snapshot(repo)
    (repo / ".git/index.lock").unlink()
    assert (repo / ".git/index").read_bytes() == before
    assert tree(repo, found["commit"])["a.txt"] == "two"


def test_mid_merge_with_markers(repo):
    git(repo, "checkout", "-q", "-b", "other")
    write(repo, {"a.txt": "theirs\n"})
    git(repo, "commit", "-q", "-am", "theirs")
    git(repo, "checkout", "-q", "main")
    write(repo, {"a.txt": "ours\n"})
    git(repo, "commit", "-q", "-am", "ours")
    git(repo, "merge", "other", check=False)
    assert git(repo, "ls-files", "-u")
    found = freeze(repo)
    assert tree(repo, found["commit"])["a.txt"].startswith("<<<<<<<")
    assert git(repo, "ls-files", "-u")
    assert (repo / ".git/MERGE_HEAD").exists()


def test_same_tree_same_commit_one_ref(repo, tmp_path):
    git(tmp_path, "clone", "-q", repo, "clone")
    for folder in (repo, tmp_path / "clone"):
        write(folder, {"a.txt": "two\n", "new.py": "x"})
    found = [freeze(repo), freeze(repo), freeze(tmp_path / "clone")]
    assert len({each["commit"] for each in found}) == 1
    assert len(git(repo, "for-each-ref", "refs/runs").splitlines()) == 1


def test_ref_of_another_commit_is_refused(repo):
    write(repo, {"a.txt": "two\n"})
    ref = snapshot(repo)["ref"]
    git(repo, "update-ref", ref, "HEAD")
    with pytest.raises(Refused, match="git update-ref -d"):
        snapshot(repo)


def test_eight_at_once(repo):
    write(repo, {"a.txt": "two\n", **{f"new/{n}.py": str(n) for n in range(50)}})
    before = state(repo)
    with ProcessPoolExecutor(8) as pool:
        found = list(pool.map(snapshot, [repo] * 8))
    assert len({each["commit"] for each in found}) == 1
    assert state(repo) == before
    assert "error" not in git(repo, "fsck", "--no-dangling")


def test_while_and_after_a_writer_works_in_the_tree(repo):
    stop = threading.Event()

    def work():
        n = 0
        while not stop.is_set():
            n += 1
            write(repo, {"src/b.py": f"{n}\n"})

    writer = threading.Thread(target=work)
    writer.start()
    try:
        with suppress(
            Refused
        ):  # "keep changing"; when it is quick enough, a snapshot of one moment
            snapshot(repo)
    finally:
        stop.set()
        writer.join()
    assert tree(repo, freeze(repo)["commit"])["src/b.py"] + "\n" == (repo / "src/b.py").read_text()


def test_no_identity_failing_hooks_and_signing(repo):
    for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        path = repo / ".git/hooks" / hook
        path.write_text("#!/bin/sh\ntouch ../ran; exit 1\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    git(repo, "config", "commit.gpgSign", "true")
    git(repo, "config", "user.useConfigOnly", "true")
    write(repo, {"a.txt": "two\n"})
    assert freeze(repo)["dirty"]
    assert not (repo.parent / "ran").exists()


def test_lfs_without_git_lfs_is_refused(repo):
    write(
        repo, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "w.bin": "weights"}
    )
    for key, value in (("clean", "git-lfs clean -- %f"), ("process", "git-lfs filter-process")):
        git(repo, "config", f"filter.lfs.{key}", value)
    git(repo, "config", "filter.lfs.required", "true")
    with pytest.raises(Refused, match="git-lfs: not found"):
        snapshot(repo)


def test_lfs_leaves_pointers_in_the_tree(repo, tmp_path):
    tool = tmp_path / "clean"
    tool.write_text("#!/bin/sh\necho oid sha256:$(sha256sum | cut -c1-64)\n")
    tool.chmod(0o755)
    write(repo, {".gitattributes": "*.bin filter=lfs -text\n", "w.bin": "weights"})
    git(repo, "config", "filter.lfs.clean", tool)
    git(repo, "config", "filter.lfs.required", "true")
    assert tree(repo, freeze(repo)["commit"])["w.bin"].startswith("oid sha256:")


def test_line_endings_with_safecrlf(repo):
    git(repo, "config", "core.autocrlf", "input")
    git(repo, "config", "core.safecrlf", "true")
    (repo / "dos.py").write_bytes(b"a\r\nb\r\n")
    assert tree(repo, freeze(repo)["commit"])["dos.py"] == "a\nb"
    assert freeze(repo)["dirty"]


@pytest.mark.release
@pytest.mark.slow
def test_five_thousand_files_need_few_processes(repo, monkeypatch):
    write(repo, {f"d{n % 50}/f{n}.txt": f"{n}\n" for n in range(5000)})
    first = freeze(repo)
    assert first["n_untracked"] == 5000
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "many")
    write(repo, {"d7/f7.txt": "changed\n"})
    calls = []
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: calls.append(a) or real(*a, **k))
    found = snapshot(repo)
    assert git(repo, "diff", "--name-only", "HEAD", found["commit"]) == "d7/f7.txt"
    assert len(calls) <= 15
