"""`lab trials restore`: brings back a trial that was dropped or deleted."""

from __future__ import annotations

import os

from ..command_parser import CommandParser
from ..config.gone_trials import PAGE
from ..errors import Failed, LabError, nearest
from ..project import Project
from ..record.freeze.git import GitFailed
from .code import trial_directory, trial_path
from .commit import commit_alone, has_in_head, last_commit_with, users_git
from .page import read_gone, remove_lines


def restore_command(project: Project, args: list[str]) -> int:
    parser = CommandParser(
        prog="lab trials restore",
        description="Brings back a trial that was dropped, in one commit, and takes its line out of "
        "TRIALS.md. One that was deleted by hand, too.",
    )
    parser.add_argument("name", metavar="NAME")
    options = parser.parse_args(args)
    commit = restore_trial(project, options.name)
    directory = os.path.relpath(trial_directory(project, options.name))
    print(f"restored {directory}/ as it was in {commit[:12]}")
    return 0


def restore_trial(project: Project, name: str) -> str:
    """Brings back the directory of a trial, and commits it unless the last commit has it.

    Returns: the commit that it comes from.
    """
    directory = trial_directory(project, name)
    if directory.exists():
        raise LabError(
            f"trial {name!r} is there: {os.path.relpath(directory)}. Nothing to restore."
        )
    path = trial_path(project, name)
    git = users_git(project)
    gone = read_gone(project)
    if name in gone and gone[name].new_name:
        raise LabError(f"trial {name!r} was renamed; it is {gone[name].new_name!r} now")
    commit = gone[name].commit if name in gone else last_commit_with(git, path)
    if commit is None:
        dropped = [entry.name for entry in gone.values() if entry.commit]
        listed = ", ".join(dropped) or "none"
        raise LabError(f"no trial {name!r} was dropped{nearest(name, dropped)}. Dropped: {listed}")
    if has_in_head(git, path):
        git("restore", "--source=HEAD", "--staged", "--worktree", "--", path)
        return git("rev-parse", "HEAD")
    try:
        git("restore", f"--source={commit}", "--worktree", "--", path)
    except GitFailed as error:
        raise Failed(
            f"{PAGE} says that the trial was last in commit {commit}, but: {error}\n"
            "If the commit is missing here, get it first: git fetch --all"
        ) from error
    remove_lines(project, name)
    changed = [path, PAGE] if name in gone else [path]
    commit_alone(project, changed, f"Restore trial {name}\n\nIt is as in {commit}.")
    return commit
