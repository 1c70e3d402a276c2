"""What `lab runs prune` may delete: what `lab` made for this project and person, nobody uses now, and no run needs.

============================================================  ==============================
a run directory below a root of runs                          may be deleted
============================================================  ==============================
it, or the directory of its trial, is a link                  no: it is somebody's original
has no run.json with the id and trial of a run                no: nobody knows what it is
was made by another person                                    when `who=NAME` names that one
belongs to another project, see `is_of_project`               no
a process has its newest attempt, or reads it                 no
a worker of a sweep resumes it next                           no
============================================================  ==============================
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import yaml

from ...machine.text_formats import printable
from ...project import PYPROJECT, Project, parse_yaml
from ..files.atomic import read_advisory, read_text
from ..files.metrics_file import read_metrics
from ..files.process import user
from ..files.schema import Row, RunRecord
from ..freeze.git import Git
from ..read.attempt_files import last_attempt, read_attempts
from ..read.evaluations import EvaluatedOn, evaluated_on
from ..read.ranking import (
    DEFAULT_METRIC,
    MODES,
    known_mode,
    monitor_of,
    rank_by_metric,
    require_mode,
    settings_of,
)
from ..read.rows import RUN_ID, recorded_id, without_checks
from ..read.run import run_record
from ..read.status import COUNT_FIRST, UNENDED, JobStateOf, silence_s
from ..write.claim import is_claimed
from .annotate import named_in

DAY_S = 86400
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Hidden directories in that of a trial: of a new run, of one that is fetched or deleted.
LEFTOVER = re.compile(rf"\.(?:deleted-)?(?P<run>{RUN_ID.pattern})(\.\d+)?")
JOB_IS_OVER_S = 30 * 86400  # of silence: no scheduler starts a job again after that


def reason_to_leave(row: Row, project: Project, people: set[str]) -> str | None:
    """Why a run may not be deleted from here, whoever needs it; None when it may.

    Args:
        people: whose runs may be deleted, as records name them.
    """
    run_dir = Path(row["run_dir"])
    if run_dir.is_symlink() or run_dir.parent.is_symlink():
        return "behind a link"
    record = cast("RunRecord", read_advisory(run_dir / "run.json") or {})
    if not is_record(record):
        return "without a readable run.json; look, and delete them yourself"
    makers = {str(who) for who in (record.get("who"), row["who"]) if who is not None}
    others = (makers or {str(run_dir.stat().st_uid)}) - people
    if others:
        return f"of {others.pop()}; add who=NAME to delete that person's"
    if not is_of_project(run_dir, record, project):
        return f"of another project, {project_of(record) or 'which they do not name'}"
    if is_claimed(run_dir):
        return "in use by a process"
    if is_point_to_resume(run_dir, record):
        return "a point that its sweep resumes"
    return None


def these_people(named: list[str]) -> set[str]:
    """This person, also by number as a container names it, and those that `who=NAME` names."""
    return {user(), str(os.getuid()), *named}


def is_record(record: RunRecord) -> bool:
    """Whether run.json is one that `lab` wrote."""
    run_id = record.get("run_id")
    is_id = isinstance(run_id, str) and RUN_ID.fullmatch(run_id)
    return bool(is_id) and isinstance(record.get("trial"), str)


def is_of_project(run_dir: Path, record: RunRecord, project: Project) -> bool:
    """Whether a run belongs to this project. The first line of this table that holds decides.

    ====================================================  ===============
    the run                                               belongs to
    ====================================================  ===============
    was made by this project                              this one
    lies in a project (a copy, a run that was received)   the one around it
    was made by a project that is still there             that one
    has code of this repository (the project was moved)   this one
    is any other                                          another one
    ====================================================  ===============
    """
    root = project.root.resolve()
    maker = project_of(record)
    if maker is not None and maker.resolve() == root:
        return True
    around = project_around(run_dir.resolve())
    if around is not None:
        return around == root
    if maker is not None and is_project(maker):
        return False
    return knows_code(project, record)


def project_of(record: RunRecord) -> Path | None:
    """The root of the project that made a run; None where the record does not say."""
    root = record.get("project")
    return Path(root) if isinstance(root, str) else None


def project_around(folder: Path) -> Path | None:
    """The project in which a directory lies; None where there is none."""
    return next((each for each in (folder, *folder.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    try:
        text = (folder / PYPROJECT).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "[tool.labrig]" in text


def knows_code(project: Project, record: RunRecord) -> bool:
    """Whether the code of a run is that of this project, by the commits of its repository."""
    code = record.get("code")
    if not isinstance(code, dict) or not code.get("commit"):
        return False
    git = Git(project.root)
    prefix = git.run("rev-parse", "--show-prefix")
    if prefix.returncode or prefix.stdout.strip() != code.get("prefix"):
        return False
    commits = [code["commit"], code.get("head")]
    return any(
        git.run("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
        for commit in commits
        if is_commit(commit)
    )


def is_commit(name: Any) -> bool:
    """Whether a record's word is the whole name of a commit, and no pattern, option or path."""
    return isinstance(name, str) and bool(COMMIT.fullmatch(name))


# The points of a sweep, by two kinds of lines of its journal, which is Optuna's.

STATE = 6  # op_code: the state of a point is set
RUNNING = 0


def is_point_to_resume(run_dir: Path, record: RunRecord) -> bool:
    """Whether a run is a point that its sweep has not settled: the next worker resumes it."""
    sweep = record.get("parent")
    if not isinstance(sweep, str) or not sweep or "/" in sweep or sweep.startswith("."):
        return False
    root = run_dir.parent.parent
    name = f"{run_dir.parent.name}/{run_dir.name}"
    points = set()
    is_open = False
    try:
        lines = (root / "sweeps" / sweep / "journal.log").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    for entry in map(read_line, lines):
        attributes = entry.get("user_attr")
        if isinstance(attributes, dict) and attributes.get("run") == name:
            points.add(entry.get("trial_id"))
            is_open = True
        elif entry.get("op_code") == STATE and entry.get("trial_id") in points:
            is_open = entry.get("state") == RUNNING
    return is_open


def read_line(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


# What else lies below a root and is ours.


def leftovers(root: Path) -> list[Path]:
    """What starts, copies and deletions that were killed left more than a day ago below a root.

    It is this user's, has a name that only `lab` gives, and is no link.
    """
    found = []
    for hidden in sorted(root.glob("*/.*")):
        match = LEFTOVER.fullmatch(hidden.name)
        if not match or hidden.is_symlink() or hidden.parent.is_symlink() or not hidden.is_dir():
            continue
        status = hidden.stat()
        is_old = time.time() - status.st_mtime > DAY_S
        if is_old and status.st_uid == os.getuid():
            found.append(hidden)
    return found


def run_of_leftover(hidden: Path) -> str:
    """The id in the name of what `leftovers` found."""
    match = LEFTOVER.fullmatch(hidden.name)
    return match["run"] if match else ""


class SweepGoals(TypedDict):
    """What prune needs of sweep.json."""

    metrics: list[str]
    directions: list[Literal["minimize", "maximize"]]


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
            for row in self.best_of_sweep(of_sweep):
                needed.setdefault(row["run_dir"], f"among the best of the sweep {sweep}")
        return needed

    @property
    def own_rows(self) -> list[Row]:
        """The runs of this project that count as the best: no checks, and none of another project."""
        return [row for row in without_checks(self.rows) if row["run_dir"] not in self.foreign]

    def best_of(
        self, of_trial: list[Row], metric: str | None = None, mode: str | None = None
    ) -> list[Row]:
        """The best finished runs of a trial on each data set, with all that are as good as the last."""
        metric = metric or self.metric or monitor_of(of_trial)
        if not any(metric in row["metrics"] for row in of_trial):
            return []
        write = f"--metric {metric}:max"
        mode = mode or self.mode or require_mode(metric, settings_of(of_trial), write)
        # Of each set of validation samples: values on different ones do not compare.
        sets: dict[EvaluatedOn, list[Row]] = {}
        for row in rank_by_metric(of_trial, metric, mode):
            sets.setdefault(evaluated_on(row, metric), []).append(row)
        best = []
        for of_set in sets.values():
            values = [row["metrics"][metric] for row in of_set[: self.n_best]]
            best += [row for row in of_set if row["metrics"][metric] in values]
        return best

    def best_of_sweep(self, of_sweep: list[Row]) -> list[Row]:
        """The best points by what the sweep searches, unless a metric was typed; of several metrics
        the Pareto front.
        """
        goals = [] if self.metric or not of_sweep else goals_of_sweep(of_sweep[0])
        if len(goals) < 2:
            return self.best_of(of_sweep, *(goals[0] if goals else ()))
        signs = [(metric, 1 if mode == "max" else -1) for metric, mode in goals]
        points = [
            (row, [sign * row["metrics"][metric] for metric, sign in signs])
            for row in of_sweep
            if all(is_finite(row["metrics"].get(metric)) for metric, _ in signs)
        ]
        front = [
            row
            for row, values in points
            if not any(
                other != values and all(map(operator.ge, other, values)) for _, other in points
            )
        ]
        return front if self.n_best else []

    def has_best_checkpoint(self, row: Row) -> bool:
        """Whether the best.ckpt of a run is the best of its trial, however the run ended."""
        best_of_run = self.best_value(row)
        if best_of_run is None or row["is_check"]:
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
        record = run_record(Path(row["run_dir"]))
        if row["status"] not in ("lost", "cancelled") or not record.get("job"):
            return False
        attempt = last_attempt(Path(row["run_dir"]))
        if silence_s(Path(row["run_dir"]), attempt.n if attempt else 0) > JOB_IS_OVER_S:
            return False
        return self.job_state_of is None or self.job_state_of(record) is not None


def goals_of_sweep(point: Row) -> list[tuple[str, str]]:
    """The metrics of the sweep of a point with their modes; empty where its file does not say them."""
    path = Path(point["run_dir"]).parents[1] / "sweeps" / str(point["parent"]) / "sweep.json"
    record = read_advisory(path, SweepGoals) or {"metrics": [], "directions": []}
    modes = {"minimize": "min", "maximize": "max"}
    pairs = zip(record["metrics"], record["directions"], strict=False)
    return [(metric, modes[direction]) for metric, direction in pairs]


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
