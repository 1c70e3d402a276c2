# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`lab cancel`: ends the jobs of runs."""

from __future__ import annotations

import argparse

from ..errors import Failed, LabError
from ..project import Project
from ..record.find import find_run
from ..record.roots import run_roots
from ..record.run import Run
from .job_states import JobStates, require_job
from .local import scheduler_of


def runs_to_cancel(args: list[str]) -> list[str]:
    """What was typed after `lab cancel`."""
    parser = argparse.ArgumentParser(
        prog="lab cancel", description="Ends the jobs of runs; those that run save first."
    )
    parser.add_argument("run", nargs="+", help="an id or its beginning, a tag, @last")
    return parser.parse_args(args).run


def cancel_command(project: Project, args: list[str]) -> None:
    names = runs_to_cancel(args)
    states = JobStates()
    for run in [find_run(run_roots(project), name) for name in names]:
        cancel(run, states)


def cancel(run: Run, states: JobStates) -> None:
    """Ends the job of a run.

    Raises:
        LabError: the run has no job, the job is over, or it cannot be reached from here.
        Failed: the scheduler refuses.
    """
    job = require_job(run)
    state = states.of(run.record)
    if state is None:
        raise LabError(f"{run.id}: job {job['id']} is over already. See: lab runs show {run.id}")
    if state.state == "unknown":
        raise LabError(f"job {job['id']} of {run.id} cannot be cancelled from here: {state.reason}")
    marker = run.dir / "cancelled"  # the job saves, but does not ask to be started again
    marker.touch()
    try:
        scheduler_of(job["scheduler"]).cancel(job["id"])
    except Failed:
        # the job keeps running, and must resume after a preemption as before
        marker.unlink()
        raise
    print(f"cancelled job {job['id']} of run {run.id}")
