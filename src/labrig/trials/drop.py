"""`lab trials drop` and `restore`: removes a trial, keeps in TRIALS.md what was learnt, brings it back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..command_parser import CommandParser
from ..config.trial_names import PAGE, trial_names
from ..errors import Failed, LabError, Refused, nearest
from ..machine.secrets import refuse_tokens_in
from ..machine.text_formats import and_more, counted
from ..project import Project
from ..record.freeze.git import Git, GitFailed
from ..record.read.rows import read_rows
from ..record.read.run import run_roots
from .files import (
    CACHES,
    add_dropped,
    read_gone,
    read_page,
    remove_lines,
    trial_directory,
    trial_path,
    write_page,
)
from .numbers import number_trials

HASH_CHARACTERS = 12


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
            f"{and_more((line[3:] for line in state), MAX_NAMED)}: not committed, so it would be lost.\n"
            f"Commit it first: git add -A {directory} && git commit -m 'Last state'"
        )
    ignored = git.paths("ls-files", "-z", "-o", "-i", "--exclude-standard", "--", directory)
    files = [name for name in ignored if not set(CACHES) & set(name.split("/"))]
    if files:
        raise Refused(
            f"{and_more(files, MAX_NAMED)}: git ignores it, so it would be lost.\n"
            "Move it away or delete it first."
        )


def drop_command(project: Project, args: list[str]) -> int:
    parser = CommandParser(
        prog="lab trials drop",
        description="Removes a trial's directory in one commit, with a line in TRIALS.md: the last "
        "commit, the best number, the reason. Its runs stay.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--why", required=True, metavar="TEXT", help="what was learnt")
    options = parser.parse_args(args)
    commit = drop_trial(project, options.name, options.why)
    print(
        f"dropped {options.name} in commit {commit[:HASH_CHARACTERS]}; its line is in {PAGE}.\n"
        f"To bring it back: lab trials restore {options.name}"
    )
    return 0


def drop_trial(project: Project, name: str, why: str) -> str:
    """Removes a trial in one commit, which holds nothing else, and adds its line to TRIALS.md.

    A trial that was deleted by hand gets its line, too.

    Returns: the commit.
    """
    if not why.strip():
        raise LabError('say why: lab trials drop NAME --why "no better than the baseline"')
    # The hooks do not see this commit.
    refuse_tokens_in({"--why": why}, "Give the reason without it.")
    git = users_git(project)
    directory = trial_directory(project, name)
    if name in read_gone(project) and not directory.exists():
        raise LabError(f"trial {name!r} is gone already; {PAGE} says more")
    path = trial_path(project, name)
    last = last_commit_with(git, path)
    if directory.exists():
        refuse_to_lose(git, path)
    if last is None:
        names = trial_names(project)
        raise LabError(f"no trial {name!r}{nearest(name, names)}. Trials: {', '.join(names)}")
    number = best_number(project, name)
    page = read_page(project)
    changed = [PAGE]
    if has_in_head(git, path):
        changed.append(path)
    moved = directory.with_name(f".{name}.dropped")
    try:
        if directory.exists():
            directory.rename(moved)
        add_dropped(project, name, last[:HASH_CHARACTERS], number, why)
        commit = commit_alone(project, changed, f"Drop trial {name}\n\n{why.strip()}\n\n{number}.")
    except BaseException:
        if moved.exists():
            moved.rename(directory)
        write_page(project, page)
        raise
    remove_directory(moved)
    return commit


def best_number(project: Project, name: str) -> str:
    """`val/loss 0.0312 in 5 runs`, or that there is none."""
    rows = read_rows(run_roots(project))
    numbers = number_trials(project, rows, [name])[name]
    if numbers.n_runs == 0:
        return "no runs"
    runs = counted(numbers.n_runs, "run")
    if numbers.mode is None:
        return runs  # nothing says which of them is the best
    if numbers.best is None:
        return f"no number in {runs}"
    return f"{numbers.metric} {numbers.best:.4g} in {runs}"


def remove_directory(directory: Path) -> None:
    """Removes what git has. A file that an editor still holds open on NFS is left there."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        print(f"lab: some files could not be deleted: {os.path.relpath(directory)}")


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
