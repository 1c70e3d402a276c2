"""Commits some paths alone, whatever else is staged."""

from __future__ import annotations

import os

from ..errors import Failed, Refused
from ..project import Project
from ..record.freeze.git import Git, GitFailed
from .code import CACHES

IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")  # the beginnings of variables that say who commits
MAX_NAMED = 3  # files in a message


def users_git(project: Project) -> Git:
    """git in the project, with the name of the user."""
    names = {name: value for name, value in os.environ.items() if name.startswith(IDENTITY)}
    return Git(project.root, names)


def commit_alone(project: Project, names: list[str], message: str) -> str:
    """Commits some paths as they are in the work tree; other changes stay staged. No hook runs.

    Args:
        names: relative to the project.

    Returns: the commit.
    """
    git = users_git(project)
    existing = [name for name in names if (project.root / name).exists()]
    try:
        git("add", "-A", "-f", "--", *existing)
        git("commit", "-q", "--only", "-m", message, "--", *names)
    except GitFailed as error:
        git.run("reset", "-q", "--", *names)
        raise Failed(f"not committed: {error}. See: git status") from error
    return git("rev-parse", "HEAD")


def has_in_head(git: Git, directory: str) -> bool:
    """Whether the last commit has a trial's directory."""
    return bool(git.run("ls-tree", "HEAD", "--", f"{directory}/config.yaml").stdout)


def last_commit_with(git: Git, directory: str) -> str | None:
    """The last commit that has a trial's directory; None when none had it."""
    if has_in_head(git, directory):
        return git("rev-parse", "HEAD")
    deletion = git.run(
        "log",
        "-1",
        "--format=%P",
        "--diff-filter=D",
        "--no-renames",
        "--",
        f"{directory}/config.yaml",
    )
    parents = deletion.stdout.split()
    return parents[0] if parents else None


def refuse_to_lose(git: Git, directory: str) -> None:
    """Makes sure that a commit has every file of a directory."""
    state = git.paths("status", "--porcelain", "-z", "-uall", "--no-renames", "--", directory)
    if state:
        raise Refused(
            f"{format_names([line[3:] for line in state])}: not committed, so it would be lost.\n"
            f"Commit it first: git add -A {directory} && git commit -m 'Last state'"
        )
    ignored = git.paths("ls-files", "-z", "-o", "-i", "--exclude-standard", "--", directory)
    files = [name for name in ignored if not set(CACHES) & set(name.split("/"))]
    if files:
        raise Refused(
            f"{format_names(files)}: git ignores it, so it would be lost.\n"
            "Move it away or delete it first."
        )


def format_names(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"
