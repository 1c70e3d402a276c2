"""Which points of a submission have a run already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...config.compose import Composition
from ...config.recorded import run_identity
from ...errors import Refused
from ...record.files.schema import Code
from ...record.read.find import find_run
from ...record.read.rows import read_rows, run_directories
from ...record.read.run import Run, run_record, run_roots
from ...record.read.status import UNENDED, status_of
from ...training.start.unchanged import unchanged_run
from ..watch.job_states import job_state_of
from .plan import Plan
from .send import Submitted


@dataclass(frozen=True)
class ExistingRun:
    """A run that is queued, running, unknown, finished or interrupted."""

    run_id: str
    status: str


def points_to_submit(plan: Plan, tree: str) -> list[Composition]:
    """The points of a list that have no run which is queued, running or finished.

    A single point is submitted again; a note says when it has such a run, or an interrupted one.

    Args:
        tree: git tree of the frozen code; runs of other code do not count.
    """
    existing = existing_runs(run_roots(plan.project), tree)
    if not existing:
        return plan.points
    interrupted = {key for key, run in existing.items() if run.status == "interrupted"}
    open_or_finished = existing.keys() - interrupted
    identities = [run_identity(point.yaml) for point in plan.points]
    missing = [
        point
        for point, identity in zip(plan.points, identities, strict=True)
        if identity not in open_or_finished
    ]
    twins = [existing[identity].run_id for identity in identities if identity in interrupted]
    if twins:
        others = f", like {len(twins) - 1} more" if len(twins) > 1 else ""
        _note(
            f"run {twins[0]} has the same code and settings and is interrupted{others}; "
            f"to continue it instead: lab submit {twins[0]}"
        )
    n_points = len(plan.points)
    if len(missing) == n_points:
        return missing
    if n_points == 1:
        run = existing[identities[0]]
        refuse_unknown(run)
        _note(
            f"run {run.run_id} has the same code and settings and is {run.status};"
            " submitting another"
        )
        return plan.points
    n_existing = n_points - len(missing)
    rest = f"submitting the other {len(missing)}" if missing else "nothing to submit"
    _note(f"{n_existing} of {n_points} runs exist already (queued, running or finished); {rest}")
    return missing


def without_unchanged(plan: Plan, codes: dict[str, Code]) -> tuple[Plan, list[Submitted]]:
    """The plan without the points that a run stands for, and these runs.

    One that is queued or running stands for the same settings with the same code; one that has
    finished see `unchanged_run`.

    Args:
        codes: the frozen code of each trial.
    """
    roots = run_roots(plan.project)
    existing = existing_runs(roots, codes[plan.points[0].trial]["tree"])
    rows = read_rows(roots)
    standing: dict[str, str] = {}
    missing = []
    for point in plan.points:
        open_run = existing.get(run_identity(point.yaml))
        finished = unchanged_run(plan.project, point, codes[point.trial], rows)
        if finished:
            standing[finished["run_dir"]] = "finished"
        elif open_run and open_run.status in ("queued", "running"):
            run = find_run(roots, open_run.run_id)
            standing[str(run.dir)] = open_run.status
        else:
            missing.append(point)
    return replace(plan, points=missing), [
        Submitted(
            run.id, str((run.record.get("job") or {}).get("id", "")), str(run.dir), "", [], why
        )
        for run, why in ((Run.open(Path(directory)), why) for directory, why in standing.items())
    ]


def refuse_unknown_command(plan: Plan, tree: str) -> None:
    """Looks for a job of the same command of which nobody knows whether the scheduler has it."""
    job_state = job_state_of()
    for directory in map(Path, run_directories(*run_roots(plan.project))):
        record = run_record(directory)
        job = record.get("job") or {}
        same_code = (record.get("code") or {}).get("tree") == tree
        if not same_code or job.get("program") != plan.command or "id" in job:
            continue
        refuse_unknown(ExistingRun(record["run_id"], status_of(directory, job_state, record)))


def refuse_unknown(run: ExistingRun) -> None:
    """Sends no second job while the scheduler may have the first."""
    if run.status == "unknown":
        raise Refused(
            f"run {run.run_id} is the same, and its scheduler has not said whether it has its job. "
            "Nothing was submitted.\nTo ask the scheduler again: lab queue"
        )


def existing_runs(roots: Sequence[Path], tree: str) -> dict[str, ExistingRun]:
    """Trainings of this code that have not ended, or finished, or were interrupted, by run_identity.

    Of several equal ones the last counts, interrupted ones only where there is no other.
    """
    job_state = job_state_of()
    existing: dict[str, ExistingRun] = {}
    for directory in map(Path, run_directories(*roots)):
        record = run_record(directory)
        code = record.get("code") or {}
        is_command = "program" in (record.get("job") or {})
        if code.get("tree") != tree or is_command:
            continue
        status = status_of(directory, job_state, record)
        if status not in (*UNENDED, "finished", "interrupted"):
            continue
        identity = run_identity((directory / "config.yaml").read_text(encoding="utf-8"))
        if status != "interrupted" or identity not in existing:
            existing[identity] = ExistingRun(record["run_id"], status)
    return existing


def _note(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr)
