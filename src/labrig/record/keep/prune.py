"""`lab runs prune`: frees the space of weights and caches that nobody needs, and keeps the numbers.

With `--records` it deletes whole runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError, Refused
from ...machine.disk import mounts_below
from ...machine.text_formats import and_more, counted, printable
from ...project import Project
from ..files.code_section import checked_out_submodules
from ..files.json_lines import read_lines
from ..files.schema import Evaluation, Row
from ..freeze.bundle import STORE
from ..freeze.git import Git
from ..read.attempt_files import read_attempts
from ..read.evaluations import EVALUATIONS
from ..read.filters import FILTERS, filter_rows, parse_filter
from ..read.ranking import split_mode
from ..read.row_cache import outdate_row
from ..read.rows import read_rows, recorded_id, run_directories
from ..read.run import FILE as ROOTS
from ..read.run import Run, missing_roots, run_record, run_roots
from ..read.status import job_state_of
from ..read.used import bytes_below, format_bytes
from ..write.claim import claim_attempt, is_claimed, withdraw_claim
from ..write.weights_place import OWNER, own_place
from .annotate import annotate
from .deletable import (
    Protection,
    is_commit,
    is_of_project,
    leftovers,
    reason_to_leave,
    run_of_leftover,
    these_people,
)

MAX_NAMED = 5  # runs of a line

DESCRIPTION = (
    "Deletes weights and caches of runs, and keeps their records: numbers, settings and code. Without "
    "--yes it only says which, and their sizes. Kept are runs that are queued or running, resumed or "
    "evaluated; tagged runs, and parents of others; the best of a trial and of a sweep; what an "
    "export, an archive or a report has named; runs of others, of another project, or behind a link."
)
DEFAULT_FILTER = "status=failed,interrupted,lost"
FREED = ("checkpoints", "profile")  # in the directory of a run: weights, traces


def prune_command(project: Project, args: list[str]) -> None:
    """`lab runs prune`."""
    options = prune_parser().parse_intermixed_args(args)
    filters = [parse_filter(text) for text in options.where or [DEFAULT_FILTER]]
    roots = run_roots(project)
    require_all_roots(project)
    ask_jobs = job_state_of()
    rows = read_rows(roots, ask_jobs)
    wanted = filter_rows(rows, filters)
    people = these_people([value for each in filters if each.key == "who" for value in each.values])
    metric, mode = split_mode(options.metric or "")
    protection = Protection(
        rows,
        options.keep_best,
        metric or None,
        mode,
        ask_jobs,
        frozenset(foreign_runs(rows, project)),
    )
    by_rows = protection.needed_by_rows()
    unneeded = []
    kept: dict[str, list[Row]] = {}
    for row in wanted:
        reason = protection.reason_to_keep(row, by_rows) or reason_to_leave(row, project, people)
        reason = reason or mounted_below(Path(row["run_dir"]))
        if reason is None:
            unneeded.append(row)
        else:
            kept.setdefault(reason, []).append(row)
    is_real = require_confirmed(options, len(unneeded))
    deletion = Deletion(project, roots, is_real)
    if options.records:
        n_deleted = sum(deletion.delete_run(row) for row in unneeded)
        deletion.delete_leftovers()
        deletion.delete_unused_code()
        verb, hint = "deleted", ""
        if not is_real:
            verb = "would be deleted"
            hint = (
                f"; to delete their records: --records --confirm {n_deleted}" if n_deleted else ""
            )
        print(f"{n_deleted} of {counted(len(rows), 'run')} {verb}{hint}")
    else:
        n_bytes = sum(deletion.free_run(row) for row in unneeded)
        deletion.delete_leftovers()
        verb = "freed" if is_real else "would be freed"
        hint = "; to delete them add: --yes" if n_bytes and not is_real else ""
        print(f"{format_bytes(n_bytes)} {verb}; every record stays{hint}")
    print_kept(kept)


def require_confirmed(options: argparse.Namespace, n_runs: int) -> bool:
    """Whether something is deleted."""
    if not options.records:
        if options.confirm is not None:
            raise LabError("--confirm is for whole records. Add --records, or type --yes")
        return options.yes
    if options.confirm is None:
        if options.yes:
            raise LabError(
                f"--records deletes {counted(n_runs, 'record')} with their numbers. "
                f"To confirm, type their number: --records --confirm {n_runs}"
            )
        return False
    if options.confirm != n_runs:
        raise LabError(
            f"{counted(n_runs, 'run')} would be deleted, not {options.confirm}. "
            "Look again without --confirm"
        )
    return True


def mounted_below(directory: Path) -> str | None:
    """Why a run is not deleted below which another disk is mounted."""
    weights = own_place(directory, directory.name)
    places = [directory, *filter(None, [weights])]
    mounts = [mount for place in places for mount in mounts_below(place)]
    return f"with a mount in it, {printable(mounts[0])}; unmount it first" if mounts else None


def prune_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="lab runs prune", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help=f"which runs (default: {DEFAULT_FILTER})"
    )
    parser.add_argument(
        "--keep-best",
        type=not_negative,
        default=3,
        metavar="N",
        help="finished runs of each trial and sweep to keep (3)",
    )
    parser.add_argument(
        "--metric",
        help="what best means: val/loss, val/fid:min (default: checkpoint.monitor of each trial)",
    )
    parser.add_argument("--yes", action="store_true", help="really delete weights and caches")
    parser.add_argument(
        "--records", action="store_true", help="whole runs, with their numbers; see --confirm"
    )
    parser.add_argument(
        "--confirm",
        type=not_negative,
        metavar="N",
        help="really delete the N records that --records has shown",
    )
    return parser


def not_negative(text: str) -> int:
    """For argparse: 0 or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text}")
    return number


def require_all_roots(project: Project) -> None:
    """A run in a place that is not there now may need any other one."""
    if missing := missing_roots(project):
        raise Refused(
            f"{missing[0]} has runs and is not there now, so what they need cannot be known. "
            f"Mount it. If it is gone for ever, delete its line in {project.root / ROOTS}"
        )


def foreign_runs(rows: list[Row], project: Project) -> Iterator[str]:
    """The directories of the runs that belong to another project."""
    for row in rows:
        run_dir = Path(row["run_dir"])
        if not is_of_project(run_dir, run_record(run_dir), project):
            yield row["run_dir"]


def print_kept(kept: dict[str, list[Row]]) -> None:
    """What else matched, and why it stays."""
    if not kept:
        return
    n_kept = sum(len(rows) for rows in kept.values())
    print(f"{n_kept} more match, but are needed or not yours:")
    for reason, rows in kept.items():
        ids = (row["run_id"] for row in rows)
        print(f"  {reason}: {and_more(ids, MAX_NAMED, between=' ')}")


class Deletion:
    """Deletes what `reason_to_leave` and `leftovers` allow, and prints each path before.

    Args:
        is_real: without it, paths are only printed.
    """

    def __init__(self, project: Project, roots: list[Path], is_real: bool) -> None:
        self.project = project
        self.roots = roots
        self.is_real = is_real
        self.commits: set[str] = set()  # of the deleted runs
        self.deleted: set[str] = set()

    def announce(self, row: Row, size: str, what: str = "") -> None:
        verb = "deleting" if self.is_real else "would delete"
        words = [
            *([what] if what else []),
            row["run_id"],
            row["status"],
            row["trial"],
            row["run_dir"],
        ]
        print(verb, *map(printable, words), f"({size})", flush=True)

    def announce_path(self, path: Path | str) -> None:
        """Says of something beside the runs that it is deleted."""
        verb = "also deleting" if self.is_real else "would also delete"
        print(verb, printable(path), flush=True)

    def free_run(self, row: Row) -> int:
        """Deletes the weights and caches of a run, and notes that in its record; how many bytes."""
        directory = Path(row["run_dir"])
        weights = own_place(directory, directory.name)
        places = [directory / name for name in FREED if not (directory / name).is_symlink()]
        places = [place for place in (weights, *places) if place is not None and place.is_dir()]
        n_bytes = sum(bytes_below(place) for place in places)
        names = [path.name for place in places for path in place.iterdir() if path.name != OWNER]
        if not names:
            return 0
        self.announce(row, format_bytes(n_bytes), "weights and caches of")
        if weights is not None:
            self.announce_path(weights)
        if not self.is_real:
            return n_bytes
        try:
            claimed = claim_attempt(directory)
        except LabError:
            print(f"{row['run_id']} stays: a process has just begun to use it")
            return 0
        try:
            annotate(
                Run.open(directory), pruned=" ".join(sorted(names)), freed=format_bytes(n_bytes)
            )
            for place in places:
                empty(place)
        finally:
            withdraw_claim(directory, claimed)
        outdate_row(directory)
        return n_bytes

    def delete_run(self, row: Row) -> bool:
        """Deletes one run with its checkpoints; whether it did."""
        directory = Path(row["run_dir"])
        self.announce(row, format_bytes(bytes_below(directory)))
        link = directory / "checkpoints"
        weights = own_place(directory, directory.name)
        if weights is not None:
            self.announce_path(weights)
        elif link.is_symlink() and link.exists():
            place = printable(os.readlink(link))
            print(f"  its checkpoints stay in {place}: that is not known to be its own")
        commits = commits_of(directory)
        if self.is_real and not hide_and_delete(directory, recorded_id(row), weights):
            print(f"{row['run_id']} stays: a process has just begun to use it")
            return False
        self.commits |= commits
        self.deleted.add(row["run_dir"])
        return True

    def delete_leftovers(self) -> None:
        """Deletes what starts, copies and deletions that were killed left."""
        for root in self.roots:
            for hidden in leftovers(root):
                weights = own_place(hidden, run_of_leftover(hidden))
                for place in filter(None, (weights, hidden)):
                    self.announce_path(place)
                    if self.is_real:
                        remove_tree(place)

    def delete_unused_code(self) -> None:
        """Deletes the bundles and refs of the deleted runs' commits that no other run has."""
        commits = set(filter(is_commit, self.commits))
        if not commits:
            return
        for directory in run_directories(*self.roots):
            if directory not in self.deleted:
                commits -= commits_of(Path(directory))
        git = Git(self.project.root)
        refs = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/runs").stdout
        names = dict(line.split(" ") for line in refs.splitlines())
        for commit in sorted(commits):
            for root in self.roots:
                self.delete_bundles(root, commit)
            if commit in names:
                self.announce_path(names[commit])
                if self.is_real:
                    git.run("update-ref", "-d", names[commit], commit)

    def delete_bundles(self, root: Path, commit: str) -> None:
        """Deletes what the store has of a commit."""
        for path in sorted((root / STORE).rglob(f"{commit}.*")):
            if path.is_file():
                self.announce_path(path)
                if self.is_real:
                    path.unlink()


def hide_and_delete(directory: Path, run_id: str, weights: Path | None) -> bool:
    """Deletes a run; it is hidden first, so that no reader ever sees half of it.

    Returns: False when a process claimed it at the last moment. It is back then.
    """
    hidden = hidden_name(directory, run_id)
    os.rename(directory, hidden)
    if is_claimed(hidden):
        os.rename(hidden, directory)
        return False
    if weights is not None:
        remove_tree(weights)
    remove_tree(hidden)
    return True


def hidden_name(directory: Path, run_id: str) -> Path:
    """A name that no reader sees, and that `leftovers` finds when the deletion is killed."""
    hidden = directory.with_name(f".deleted-{run_id}")
    if os.path.lexists(hidden):
        return hidden.with_name(f"{hidden.name}.{os.getpid()}")
    return hidden


def remove_tree(directory: Path) -> None:
    """Removes a directory; what stays, such as a file that is open on NFS, is named."""
    try:
        shutil.rmtree(directory)
    except OSError as error:
        reason = printable(error)
        print(f"lab: {printable(directory)} is not deleted whole: {reason}", file=sys.stderr)


def empty(place: Path) -> None:
    """Removes what lies in a directory of weights, but not the mark that says whose it is."""
    for path in place.iterdir():
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        elif path.name != OWNER:
            path.unlink()


def commits_of(directory: Path) -> set[str]:
    """Every commit that a run refers to: of its start, attempts, evaluations and submodules."""
    record = run_record(directory)
    starts = [attempt.start for attempt in read_attempts(directory)]
    evaluations = read_lines(directory / EVALUATIONS, Evaluation)
    codes = [part["code"] for part in (record, *starts, *evaluations) if part.get("code")]
    submodules = [inner for code in codes for inner in checked_out_submodules(code)]
    commits = set()
    for code in [*codes, *submodules]:
        commits |= {code.get("commit"), code.get("head"), code.get("base")}
    return commits - {None}
