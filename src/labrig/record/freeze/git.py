"""The repository around the code that is recorded, and the copy of its index that a snapshot works on.

git takes a file for unchanged by its size and times, in whole seconds. It does not look at files with
some flags. It keeps the paths below a directory also when a link has taken its place.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import Refused
from ...machine.git import Git, GitFailed
from ...machine.secrets import without_credentials

PLACES = ("--show-toplevel", "--absolute-git-dir", "--show-prefix")  # what `locate` asks for
# `git ls-files --debug` writes such lines after each path.
ABOUT = re.compile(r"(?:  .*\n)*")
CTIME = re.compile(r"ctime: (\d+):(\d+)\n")
SECOND_NS = 10**9


class NoRepository(Refused):
    """There is no git repository with a work tree here."""


@dataclass(frozen=True)
class Repository:
    """The repository around a directory."""

    top: Path  # the work tree
    git_dir: Path
    prefix: str  # of the directory in the work tree: "" or with a slash at the end
    head: str | None  # None before the first commit
    head_tree: str | None
    branch: str | None  # None when HEAD is detached


def locate(directory: Path) -> Repository:
    """The repository around `directory`.

    Raises:
        NoRepository: no git, no repository, or a bare one.
        Refused: git does not trust the owner of the repository.
    """
    git = Git(directory)
    try:
        done = git.run("rev-parse", *PLACES, "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
    except GitFailed as error:
        raise NoRepository(str(error)) from error
    if "dubious ownership" in done.stderr:
        raise Refused(ownership_message(directory, done.stderr))
    lines = done.stdout.split("\n")
    if len(lines) < 4:
        reason = "a bare repository" if "work tree" in done.stderr else "not a git repository"
        raise NoRepository(
            f"{directory} is {reason}. To have code recorded: git init && git add . && git commit"
        )
    top, git_dir, prefix = lines[:3]
    head = None
    head_tree = None
    if done.returncode == 0:
        head, head_tree, full_branch = lines[3:6]
    else:  # before the first commit
        full_branch = git.run("symbolic-ref", "-q", "HEAD").stdout.strip()
    branch = None if full_branch == "HEAD" else full_branch.removeprefix("refs/heads/")
    return Repository(Path(top), Path(git_dir), prefix, head, head_tree, branch)


def ownership_message(directory: Path, stderr: str) -> str:
    """What to type when git does not trust the owner; git prints the command itself."""
    commands = [line.strip() for line in stderr.splitlines() if "--add safe.directory" in line]
    advice = commands[0] if commands else ""
    return (
        f"git does not trust {directory}, because it belongs to another user. "
        f"If you trust it, type:\n  {advice}"
    )


@dataclass(frozen=True)
class Remote:
    """A remote of a repository; its URL has no credentials."""

    name: str
    url: str


def remote_of(git: Git, branch: str | None) -> Remote | None:
    """The remote of a branch, else origin, else the first; None when there is none."""
    pattern = r"^(remote\..*\.url|branch\..*\.remote)$"
    lines = git.run("config", "--get-regexp", pattern).stdout.splitlines()
    urls: dict[str, str] = {}
    remotes_of_branches = {}
    for line in lines:
        key, _, value = line.partition(" ")
        kind, _, rest = key.partition(".")
        name = rest.rpartition(".")[0]
        if kind == "branch":
            remotes_of_branches[name] = value
        else:
            urls.setdefault(name, value)  # git fetches from the first of several
    for name in (remotes_of_branches.get(branch), "origin", *urls):
        if name in urls:
            return Remote(name, without_credentials(urls[name]))
    return None


@dataclass(frozen=True)
class IndexEntry:
    """What the index says of a path."""

    path: str
    is_submodule: bool
    is_hidden: bool  # assume-unchanged or skip-worktree
    ctime_ns: int | None  # when the file was last changed; None: this git does not say


def copy_index(repository: Repository, folder: Path) -> Path:
    """A copy of git's index to work on. It keeps the time stamp, by which git judges racy edits."""
    original = repository.git_dir / "index"
    index = folder / "index"
    if original.exists():
        shutil.copy2(original, index)
    return index


def list_entries(git: Git) -> list[IndexEntry]:
    """The entries of the copied index."""
    entries = []
    line = ""
    for part in git("ls-files", "-v", "-s", "--debug", "-z").split("\0"):
        about = ABOUT.match(f"{part}\n")
        length = about.end() if about else 0
        if line:
            ctime = CTIME.search(part[:length])
            fields, path = line.split("\t", 1)
            flag = fields[0]
            entries.append(
                IndexEntry(
                    path,
                    is_submodule=fields[2:8] == "160000",
                    is_hidden=flag.islower() or flag == "S",
                    ctime_ns=int(ctime[1]) * SECOND_NS + int(ctime[2]) if ctime else None,
                )
            )
        line = part[length:]
    return entries


def forget(git: Git, paths: Iterable[str]) -> None:
    """Removes paths from the copied index; the files stay."""
    names = "".join(f"{path}\0" for path in paths)
    if names:
        git("update-index", "--force-remove", "-z", "--stdin", stdin=names)


def forget_replaced(git: Git, entries: list[IndexEntry]) -> list[IndexEntry]:
    """Forgets what lay in a directory or submodule whose place a link or a file has taken.

    What the link leads to is no part of the work tree, so nothing there is read.

    Returns:
        The entries that stay.
    """

    @cache
    def is_replaced(folder: str) -> bool:
        return bool(folder) and (
            os.path.islink(git.directory / folder) or is_replaced(os.path.dirname(folder))
        )

    replaced = [
        entry
        for entry in entries
        if is_replaced(os.path.dirname(entry.path))
        or (entry.is_submodule and is_no_directory(git.directory / entry.path))
    ]
    forget(git, [entry.path for entry in replaced])
    return [entry for entry in entries if entry not in set(replaced)] if replaced else entries


def is_no_directory(path: Path) -> bool:
    """Whether a link or a file lies there; nothing at all is neither."""
    return os.path.lexists(path) and (os.path.islink(path) or not path.is_dir())


def unhide_files(git: Git, entries: list[IndexEntry]) -> None:
    """Clears assume-unchanged and skip-worktree in the copied index for files that exist."""
    hidden = [
        entry.path
        for entry in entries
        if entry.is_hidden and os.path.lexists(git.directory / entry.path)
    ]
    if hidden:
        names = "".join(f"{path}\0" for path in hidden)
        for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
            git("update-index", flag, "-z", "--stdin", stdin=names)


def touched_files(git: Git, entries: list[IndexEntry]) -> list[str]:
    """The files that were changed again within the second in which git looked at them.

    git would take one of the same size and time for unchanged.
    """
    touched = []
    for entry in entries:
        if entry.is_submodule or not entry.ctime_ns:
            continue
        try:
            status = os.lstat(git.directory / entry.path)
        except OSError:
            continue  # deleted: git sees that
        is_same_second = status.st_ctime_ns // SECOND_NS == entry.ctime_ns // SECOND_NS
        is_touched = is_same_second and status.st_ctime_ns != entry.ctime_ns
        if is_touched and not stat.S_ISDIR(status.st_mode):
            touched.append(entry.path)
    return touched


@dataclass(frozen=True)
class Staged:
    """The paths of the index that HEAD does not have as they are."""

    new: list[str]
    changed: list[str]
    deleted: list[str]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.deleted)


def list_staged(git: Git, head_tree: str | None) -> Staged:
    """What was staged, also by `git add -N`.

    Args:
        head_tree: None before the first commit.
    """
    tree = head_tree or git("hash-object", "-t", "tree", "--stdin")  # the empty one
    words = git.paths(
        *("diff-index", "--cached", "--name-status", "--no-renames", "-z"),
        *("--ita-visible-in-index", tree),
    )
    states = dict(zip(words[1::2], words[::2], strict=True))
    return Staged(
        [path for path, state in states.items() if state == "A"],
        [path for path, state in states.items() if state not in ("A", "D")],
        [path for path, state in states.items() if state == "D"],
    )
