"""The runs of a job script or of a job array, also those that wait here to be sent."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ...errors import LabError
from ...record.files.schema import Job
from ...record.read.find import number_of_array
from ...record.read.run import Run
from ..schedulers.job_array import run_dirs_of
from .unanswered import waits_here


def runs_of(script: Path) -> list[Run]:
    """The runs that a job script has, and that were not sent again with another one."""
    runs = []
    for directory in run_dirs_of(script):
        with suppress(LabError):  # it was deleted
            run = Run.open(directory)
            if (run.record.get("job") or {}).get("script") == str(script):
                runs.append(run)
    return runs


def with_waiting(runs: list[Run], name: str) -> list[Run]:
    """The runs; for the number of an array also those of its script that wait here to be sent."""
    of_array = [run for run in runs if number_of_array(job_of(run).get("id", "")) == name]
    found = {run.id for run in runs}
    scripts = dict.fromkeys(job_of(run).get("script") for run in of_array)
    members = [run for script in filter(None, scripts) for run in runs_of(Path(script))]
    return runs + [run for run in members if run.id not in found and waits_here(run.record["job"])]


def job_of(run: Run) -> Job:
    return run.record.get("job") or {}
