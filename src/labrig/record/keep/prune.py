"""`lab runs prune`: frees the space of weights and caches that nobody needs, and keeps the numbers.

With `--records` it deletes whole runs.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...errors import LabError, Refused
from ...machine.counted import counted
from ...machine.disk import mounts_below
from ...machine.terminal import printable
from ...project import Project, parse_yaml
from ..files.atomic import read_text
from ..files.code_section import checked_out_submodules
from ..files.json_lines import read_lines
from ..files.metrics_file import read_metrics
from ..files.schema import Evaluation, Row, RunRecord
from ..freeze.bundle import STORE
from ..freeze.git import Git
from ..list.alike import EvaluatedOn, evaluated_on
from ..list.filters import FILTERS, filter_rows, parse_filter
from ..list.ranking import (
    DEFAULT_METRIC,
    MODES,
    known_mode,
    monitor_of,
    rank_by_metric,
    require_mode,
    settings_of,
    split_mode,
)
from ..list.row_cache import outdate_row
from ..list.rows import read_rows, recorded_id, run_directories
from ..read.attempt_files import last_attempt, read_attempts
from ..read.evaluations import EVALUATIONS
from ..read.roots import FILE as ROOTS
from ..read.roots import missing_roots, run_roots
from ..read.run import Run, run_record
from ..read.size import bytes_below, format_bytes
from ..read.status import COUNT_FIRST, UNENDED, JobStateOf, job_state_of, silence_s
from ..write.claim import claim_attempt, is_claimed, withdraw_claim
from ..write.weights_place import OWNER, own_place
from .annotate import annotate, named_in
from .ours import (
    is_commit,
    is_of_project,
    leftovers,
    reason_to_leave,
    run_of_leftover,
    these_people,
)

MAX_NAMED = 5  # runs of a line

# Which runs `lab runs prune` never deletes.

JOB_IS_OVER_S = 30 * 86400  # of silence: no scheduler starts a job again after that


@dataclass(frozen=True)
class Protection:
    """What makes a run needed. `rows` are all runs, newest first."""

    rows: list[Row]
    n_best: int  # finished runs of each trial to keep
    metric: str | None = (
        None  # what best means; None: checkpoint.monitor of each trial's newest run
    )
    mode: str | None = None  # min or max; None: as the configuration of the runs says it
    job_state_of: JobStateOf | None = None
    foreign: frozenset[str] = frozenset()  # directories of other projects' runs, which rank nowhere
    best_values: dict[str, BestValue | None] = field(default_factory=dict)  # by run directory

    def reason_to_keep(self, row: Row, by_rows: dict[str, str]) -> str | None:
        """Why somebody needs a run; None when nobody does. `by_rows` is from `needed_by_rows`."""
        if reason := by_rows.get(row["run_dir"]):
            return reason
        if place := named_in(Path(row["run_dir"])):
            return f"named in {printable(place)}"
        if finished_once(row):
            return "finished before a later attempt failed"
        if self.has_best_checkpoint(row):
            return "with the best checkpoint of the trial"
        if self.may_start_again(row):
            return "with a job that may start again"
        return None

    def needed_by_rows(self) -> dict[str, str]:
        """Why runs are needed, by directory, as far as the rows say."""
        parents = {row["parent"] for row in self.rows if row["parent"]}
        parents |= {row["init_from"]["run"] for row in self.rows if row["init_from"]}
        parents |= {row["data"]["run"] for row in self.rows if row["data"] and "run" in row["data"]}
        needed = {}
        for row in self.rows:
            if row["status"] in UNENDED:
                needed[row["run_dir"]] = row["status"]
            elif row["tags"]:
                needed[row["run_dir"]] = "tagged"
            elif {row["run_id"], recorded_id(row)} & parents:
                needed[row["run_dir"]] = "the parents of others"
            elif row.get("is_copied"):
                needed[row["run_dir"]] = "in two directories"
        finished = [row for row in self.own_rows if row["status"] in COUNT_FIRST]
        for trial in {row["trial"] for row in finished}:
            of_trial = [row for row in finished if row["trial"] == trial]
            for row in self.best_of(of_trial):
                needed.setdefault(row["run_dir"], "among the best of the trial")
        for sweep in {row["parent"] for row in finished} - {row["run_id"] for row in self.rows}:
            of_sweep = [row for row in finished if sweep and row["parent"] == sweep]
            for row in self.best_of(of_sweep):
                needed.setdefault(row["run_dir"], f"among the best of the sweep {sweep}")
        return needed

    @property
    def own_rows(self) -> list[Row]:
        """The runs of this project: the best of a trial is never a run of another one."""
        return [row for row in self.rows if row["run_dir"] not in self.foreign]

    def best_of(self, of_trial: list[Row]) -> list[Row]:
        """The best finished runs of a trial on each data set.

        Raises:
            LabError: nothing says which values of the metric are better.
        """
        metric = self.metric or monitor_of(of_trial)
        if not any(metric in row["metrics"] for row in of_trial):
            return []
        write = f"--metric {metric}:max"
        mode = self.mode or require_mode(metric, settings_of(of_trial), write)
        # Of each set of validation samples: values on different ones do not compare.
        sets: dict[EvaluatedOn, list[Row]] = {}
        for row in rank_by_metric(of_trial, metric, mode):
            sets.setdefault(evaluated_on(row, metric), []).append(row)
        return [row for of_set in sets.values() for row in of_set[: self.n_best]]

    def has_best_checkpoint(self, row: Row) -> bool:
        """Whether the best.ckpt of a run is the best of its trial, however the run ended."""
        best_of_run = self.best_value(row)
        if best_of_run is None:
            return False
        metric = best_of_run.metric
        evaluated = evaluated_on(row, metric)
        others = [
            self.best_value(other)
            for other in self.own_rows
            if other["trial"] == row["trial"] and evaluated_on(other, metric) == evaluated
        ]
        values = [other.value for other in others if other and other.metric == metric]
        return best_of_run.value >= max(values)

    def best_value(self, row: Row) -> BestValue | None:
        """See the function; a file is read once."""
        run_dir = row["run_dir"]
        if run_dir not in self.best_values:
            self.best_values[run_dir] = best_value(Path(run_dir), self.metric)
        return self.best_values[run_dir]

    def may_start_again(self, row: Row) -> bool:
        """Whether a run that seems lost has a job that its scheduler may start again."""
        record: RunRecord = run_record(Path(row["run_dir"])) or {}
        if row["status"] not in ("lost", "cancelled") or not record.get("job"):
            return False
        attempt = last_attempt(Path(row["run_dir"]))
        if silence_s(Path(row["run_dir"]), attempt.n if attempt else 0) > JOB_IS_OVER_S:
            return False
        return self.job_state_of is None or self.job_state_of(record) is not None


def finished_once(row: Row) -> bool:
    """Whether a run finished, and a later attempt ended otherwise."""
    if row["status"] == "finished":
        return False
    attempts = read_attempts(Path(row["run_dir"]))
    return any(attempt.end.get("status") == "finished" for attempt in attempts)


@dataclass(frozen=True)
class BestValue:
    """How good the best.ckpt of a run is: more is better, of one metric."""

    metric: str
    value: float


def best_value(folder: Path, metric: str | None) -> BestValue | None:
    """How good the best.ckpt of a run is; None when it has none, or nothing says what chose it.

    Args:
        metric: where the configuration does not say what chose it.
    """
    if not (folder / "checkpoints/best.ckpt").exists():
        return None
    chosen = checkpoint_settings(folder)
    metric = str(chosen.get("monitor") or metric or DEFAULT_METRIC)
    mode = chosen.get("mode") or known_mode(metric, [])
    values = [row[metric] for row in read_metrics(folder) if is_finite(row.get(metric))]
    if not values or mode not in MODES:
        return None
    return BestValue(metric, -min(values) if mode == "min" else max(values))


def checkpoint_settings(folder: Path) -> dict[str, Any]:
    """What chose best.ckpt, from config.yaml; empty when it cannot be read."""
    try:
        config = parse_yaml(read_text(folder / "config.yaml"))
        return dict(config["checkpoint"])
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return {}


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


DESCRIPTION = (
    "Deletes weights and caches of runs, and keeps their records: numbers, settings and code. Without "
    "--yes it only says which, and their sizes. Kept are runs that are queued or running, resumed or "
    "evaluated; tagged runs, and parents of others; the best of a trial and of a sweep; what an "
    "export, an archive or a report has named; runs of others, of another project, or behind a link."
)
DEFAULT_FILTER = "status=failed,interrupted,lost"
FREED = ("checkpoints", "profile")  # in the directory of a run: weights, traces


def prune_command(project: Project, args: list[str]) -> None:
    """`lab runs prune`.

    Raises:
        LabError: a filter is not understood, nothing says which values of a metric are better, or
            other runs than the confirmed ones match.
        Refused: a disk with runs is not there, so nobody knows what they need.
    """
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
        verb = "deleted" if is_real else "would be deleted"
        hint = f"; to delete their records: --records --confirm {n_deleted}" if n_deleted else ""
        print(f"{n_deleted} of {counted(len(rows), 'run')} {verb}{'' if is_real else hint}")
    else:
        n_bytes = sum(deletion.free_run(row) for row in unneeded)
        deletion.delete_leftovers()
        verb = "freed" if is_real else "would be freed"
        hint = "; to delete them add: --yes" if n_bytes and not is_real else ""
        print(f"{format_bytes(n_bytes)} {verb}; every record stays{hint}")
    print_kept(kept)


def require_confirmed(options: argparse.Namespace, n_runs: int) -> bool:
    """Whether something is deleted.

    Raises:
        LabError: whole records are to be deleted, and their number was not typed, or another one.
    """
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
    parser = argparse.ArgumentParser(prog="lab runs prune", description=f"{DESCRIPTION} {FILTERS}")
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
    """A run in a place that is not there now may need any other one.

    Raises:
        Refused: such a place is recorded.
    """
    if missing := missing_roots(project):
        raise Refused(
            f"{missing[0]} has runs and is not there now, so what they need cannot be known. "
            f"Mount it. If it is gone for ever, delete its line in {project.root / ROOTS}"
        )


def foreign_runs(rows: list[Row], project: Project) -> Iterator[str]:
    """The directories of the runs that belong to another project."""
    for row in rows:
        run_dir = Path(row["run_dir"])
        if not is_of_project(run_dir, run_record(run_dir) or {}, project):
            yield row["run_dir"]


def print_kept(kept: dict[str, list[Row]]) -> None:
    """What else matched, and why it stays."""
    if not kept:
        return
    n_kept = sum(len(rows) for rows in kept.values())
    print(f"{n_kept} more match, but are needed or not yours:")
    for reason, rows in kept.items():
        ids = " ".join(row["run_id"] for row in rows[:MAX_NAMED])
        more = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
        print(f"  {reason}: {ids}{more}")


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
    record = run_record(directory) or {}
    starts = [attempt.start for attempt in read_attempts(directory)]
    evaluations = read_lines(directory / EVALUATIONS, Evaluation)
    codes = [part["code"] for part in (record, *starts, *evaluations) if part.get("code")]
    submodules = [inner for code in codes for inner in checked_out_submodules(code)]
    commits = set()
    for code in [*codes, *submodules]:
        commits |= {code.get("commit"), code.get("head"), code.get("base")}
    return commits - {None}
