"""Which points of a submission have a run already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config.compose import Composition
from ..config.recorded import run_identity
from ..record.atomic import read_json
from ..record.index import run_directories
from ..record.roots import run_roots
from ..record.schema import RunRecord
from ..record.status import status_of
from .job_states import job_state_of
from .plan import Plan


@dataclass(frozen=True)
class ExistingRun:
    """A run that is queued, running or finished."""

    run_id: str
    status: str


def points_to_submit(plan: Plan, tree: str) -> list[Composition]:
    """The points of a list that have no run which is queued, running or finished.

    A single point is always submitted; a note says when it has such a run.

    Args:
        tree: git tree of the frozen code; runs of other code do not count.
    """
    existing = existing_runs(run_roots(plan.project), tree)
    missing = [point for point in plan.points if run_identity(point.yaml) not in existing]
    n_points = len(plan.points)
    if len(missing) == n_points:
        return missing
    if n_points == 1:
        run = existing[run_identity(plan.points[0].yaml)]
        _note(
            f"run {run.run_id} has the same code and settings and is {run.status};"
            " submitting another"
        )
        return plan.points
    n_existing = n_points - len(missing)
    rest = f"submitting the other {len(missing)}" if missing else "nothing to submit"
    _note(f"{n_existing} of {n_points} runs exist already (queued, running or finished); {rest}")
    return missing


def existing_runs(roots: Sequence[Path], tree: str) -> dict[str, ExistingRun]:
    """Runs of this code that are queued, running or finished, by their run_identity."""
    job_state = job_state_of()
    existing = {}
    for directory in map(Path, run_directories(*roots)):
        record: RunRecord = read_json(directory / "run.json") or {}
        code = record.get("code") or {}
        if code.get("tree") != tree:
            continue
        status = status_of(directory, job_state, record)
        if status in ("queued", "running", "finished"):
            config_yaml = (directory / "config.yaml").read_text(encoding="utf-8")
            existing[run_identity(config_yaml)] = ExistingRun(record["run_id"], status)
    return existing


def _note(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr)
