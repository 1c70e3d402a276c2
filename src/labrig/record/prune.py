"""`lab runs prune`: deletes runs that nobody needs."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .atomic import read_json
from .attempt_files import read_attempts
from .bundle import STORE
from .code_section import checked_out_submodules
from .filters import FILTERS, filter_rows, parse_filter
from .git import Git
from .index import read_rows, run_directories
from .json_lines import read_lines
from .needed import Protection
from .roots import run_roots
from .status import JobStateOf

DESCRIPTION = (
    "Deletes runs; without --yes it only says which. It never deletes a run that is queued or "
    "running, has a tag, is the parent of another, is named in a trial's README, is among the "
    "best of its trial, has the best checkpoint of its trial, finished before a later attempt "
    "failed, or has a copy, or a job of which the scheduler does not say that it is over."
)
DEFAULT_FILTER = "status=failed,interrupted,lost"
DAY_S = 86400


def prune_command(
    project: Project, args: list[str], job_state_of: JobStateOf | None = None
) -> None:
    """`lab runs prune`.

    Raises:
        LabError: a filter is not understood.
    """
    parser = argparse.ArgumentParser(prog="lab runs prune", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help=f"which runs (default: {DEFAULT_FILTER})"
    )
    parser.add_argument(
        "--keep-best",
        type=int,
        default=3,
        metavar="N",
        help="finished runs of each trial to keep (3)",
    )
    parser.add_argument("--metric", default="val/loss", help="what best means (val/loss)")
    parser.add_argument("--yes", action="store_true", help="really delete")
    options = parser.parse_intermixed_args(args)
    filters = [parse_filter(text) for text in options.where or [DEFAULT_FILTER]]
    rows = read_rows(run_roots(project), job_state_of)
    trials = project.source / "trials"
    protection = Protection(rows, trials, options.keep_best, options.metric, job_state_of)
    by_rows = protection.needed_by_rows()
    wanted = filter_rows(rows, filters)
    unneeded = [row for row in wanted if not protection.is_needed(row, by_rows)]
    verb = "deleting" if options.yes else "would delete"
    for row in unneeded:
        print(verb, row["run_id"], row["status"], printable(row["trial"]))
    if options.yes:
        delete_runs([Path(row["run_dir"]) for row in unneeded], project)
    hint = "; to delete them add: --yes" if unneeded and not options.yes else ""
    print(f"{len(unneeded)} of {counted(len(rows), 'run')}{hint}")
    n_needed = len(wanted) - len(unneeded)
    if n_needed:
        print(f"{n_needed} more match, but are needed; by what: lab runs prune --help")


def delete_runs(directories: list[Path], project: Project) -> None:
    """Deletes runs with their checkpoints, then bundles and refs that no remaining run has."""
    roots = run_roots(project)
    commits = set()
    for directory in directories:
        commits |= commits_of(directory)
        delete_run(directory)
    for root in roots:
        delete_leftovers(root)
    delete_unused_code(commits, project, roots)


def delete_unused_code(commits: set[str], project: Project, roots: list[Path]) -> None:
    """Deletes the bundles and refs of those commits that no run has."""
    for directory in run_directories(*roots):
        commits = commits - commits_of(Path(directory))
    git = Git(project.root)
    for commit in commits:
        for root in roots:
            delete_bundles(root, commit)
        git.run("update-ref", "-d", f"refs/runs/{commit[:12]}", commit)


def delete_bundles(root: Path, commit: str) -> None:
    """Deletes the stored bundles of a commit."""
    for path in (root / STORE).rglob(f"{commit}.*"):
        path.unlink()


def delete_run(directory: Path) -> None:
    """Deletes one run; it is hidden first, so that no reader ever sees half of it."""
    hidden = directory.with_name(f".deleted-{directory.name}")
    os.rename(directory, hidden)
    checkpoints = hidden / "checkpoints"
    if checkpoints.is_symlink():
        shutil.rmtree(checkpoints.resolve(), ignore_errors=True)
    shutil.rmtree(hidden)


def delete_leftovers(runs: Path) -> None:
    """Deletes what starts and deletions that were killed left more than a day ago."""
    for hidden in runs.glob("*/.*-*"):
        if time.time() - hidden.stat().st_mtime > DAY_S:
            shutil.rmtree(hidden)


def commits_of(directory: Path) -> set[str]:
    """Every commit that a run refers to: of its start, attempts, evaluations and submodules."""
    record = read_json(directory / "run.json") or {}
    starts = [attempt.start for attempt in read_attempts(directory)]
    evaluations = read_lines(directory / "evaluations.jsonl")
    codes = [part["code"] for part in (record, *starts, *evaluations) if part.get("code")]
    submodules = [inner for code in codes for inner in checked_out_submodules(code)]
    commits = set()
    for code in [*codes, *submodules]:
        commits |= {code.get("commit"), code.get("head"), code.get("base")}
    return commits - {None}
