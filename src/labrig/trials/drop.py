"""`lab trials drop`: removes a trial, and keeps in TRIALS.md what was learnt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..command_parser import CommandParser
from ..config.gone_trials import PAGE
from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..machine.counted import counted
from ..machine.secrets import refuse_tokens_in
from ..project import Project
from ..record.read.roots import run_roots
from ..record.read.rows import read_rows
from .code import trial_directory, trial_path
from .commit import commit_alone, has_in_head, last_commit_with, refuse_to_lose, users_git
from .numbers import number_trials
from .page import add_dropped, read_gone, read_page, write_page

HASH_CHARACTERS = 12


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
