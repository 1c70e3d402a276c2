"""Sweeps for tests, whose points are runs of the record without torch."""

import os
import subprocess
import sys
from pathlib import Path

from labrig.record.files.atomic import read_advisory
from labrig.sweep.begin import plan_points
from labrig.sweep.definition import SweepDefinition
from labrig.sweep.folder import make_sweep
from labrig.sweep.points import Points
from projects import SOURCE

PROGRAM = Path(__file__).with_name("sweep_program.py")
NO_CODE = {"tree": None, "branch": None, "dirty": None}


def make_search(project, *space, n_points=10, **changes):
    """The points of a new sweep, or of the one that has the same definition."""
    usual = {
        "trial": "baseline",
        "overrides": ["trial=baseline"],
        "space": list(space),
        "metrics": ["val/loss"],
        "directions": ["minimize"],
        "sampler": "grid",
        "pruner": None,
    }
    sweep = make_sweep(project.root / "runs", SweepDefinition(**usual | changes), "", NO_CODE)
    points = Points(sweep)
    plan_points(points, n_points)
    return points


def start_worker(project, sweep, point_s=0.0):
    """A worker in a session of its own, so that a test can kill all of it."""
    with open(sweep.workers / f"test-{os.urandom(3).hex()}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, PROGRAM, project.root, sweep.dir, str(point_s)],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            cwd=project.root,
            start_new_session=True,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def logs_of(sweep):
    return "".join(path.read_text() for path in sorted(sweep.workers.glob("*.log")))


def finished_runs(sweep):
    """The recorded settings of each finished run of a sweep."""
    settings = []
    for path in sweep.runs.glob("*/*/run.json"):
        record = read_advisory(path)
        summary = read_advisory(path.with_name("summary.json")) or {}
        if record["parent"] == sweep.id and summary.get("status") == "finished":
            settings.append((path.parent / "overrides.txt").read_text())
    return settings
