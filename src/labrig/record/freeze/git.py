"""The repository around the code that is recorded, and its remote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import Refused
from ...machine.git import Git, GitFailed
from ...machine.secrets import without_credentials

PLACES = ("--show-toplevel", "--absolute-git-dir", "--show-prefix")  # what `locate` asks for


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
