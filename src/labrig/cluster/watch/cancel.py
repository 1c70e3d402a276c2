"""`lab cancel`: ends the jobs of runs."""

from __future__ import annotations

from ...command_parser import CommandParser
from ...errors import Failed, LabError
from ...project import Project
from ...providers import provided
from ...record.files.process import user
from ...record.files.schema import Job
from ...record.read.find import find_runs
from ...record.read.run import Run, run_roots
from ...record.read.status import CANCELLED
from ..schedulers import scheduler_of
from ..schedulers.job import JobState
from .job_states import JobStates, require_job
from .unanswered import job_of, waits_here, with_waiting
from .waiting_here import cancel_waiting


def runs_to_cancel(args: list[str]) -> list[str]:
    """What was typed after `lab cancel`."""
    parser = CommandParser(
        prog="lab cancel", description="Ends the jobs of runs; those that run save first."
    )
    parser.add_argument(
        "run", nargs="+", help="an id or its beginning, a tag, @last, the id of a job or an array"
    )
    return parser.parse_args(args).run


def cancel_command(project: Project, args: list[str]) -> None:
    """Ends the jobs of runs, here and on the hosts that they were sent to."""
    names = runs_to_cancel(args)
    elsewhere = provided("cancel_elsewhere")
    if elsewhere is None:
        cancel_here(project, names)
        return
    with elsewhere(project, names) as names_here:
        cancel_here(project, names_here)


def cancel_here(project: Project, names: list[str]) -> None:
    """Ends the jobs of runs of this machine."""
    states = JobStates()
    cancelled: list[tuple[Run, JobState]] = []
    for name in names:
        runs = with_waiting(find_runs(run_roots(project), name), name)
        for run in runs:
            if len(runs) == 1 or states.of(run.record):  # not what is over of an array
                cancelled += job_to_cancel(run, states)
    cancel_jobs(cancelled, states)


def job_to_cancel(run: Run, states: JobStates) -> list[tuple[Run, JobState]]:
    """A run and the state of its job; nothing where it waited here, which ends now."""
    state = states.of(run.record)
    if waits_here(job_of(run)):
        if cancel_waiting(run):
            return []
        run = Run.open(run.dir)
        state = states.of(run.record)
    job = require_job(run)
    if state is None:
        raise LabError(f"{run.id}: job {job['id']} is over already. See: lab runs show {run.id}")
    if run.record["who"] != user():
        raise LabError(
            f"job {job['id']} of {run.id} belongs to {run.record['who']}, who alone may cancel it"
        )
    if state.state == "unknown":
        raise LabError(
            f"job {job['id']} of {run.id} cannot be cancelled from here: {state.reason}. "
            "Type the same again on the machine that sent it"
        )
    return [(run, state)]


def cancel_jobs(cancelled: list[tuple[Run, JobState]], states: JobStates) -> None:
    """Ends the jobs of runs, with one call for each scheduler: centres forbid a call for each job."""
    ids: dict[str, list[str]] = {}  # of each scheduler
    for run, state in cancelled:
        job = require_job(run)
        ids.setdefault(job["scheduler"], []).extend(ids_to_end(job, state))
        (run.dir / CANCELLED).touch()  # the job saves, but does not ask to be started again
    try:
        for name, job_ids in ids.items():
            scheduler = scheduler_of(name)
            scheduler.cancel(scheduler.with_whole_arrays(job_ids, states.ids_of(name)))
    except Failed:
        # the jobs keep running, and must resume after a preemption as before
        for run, _ in cancelled:
            (run.dir / CANCELLED).unlink(missing_ok=True)
        raise
    for run, state in cancelled:
        print(f"cancelled job {state.job_id or require_job(run)['id']} of run {run.id}")


def ids_to_end(job: Job, state: JobState) -> list[str]:
    """The jobs of a run that are not over; of a chain the later chunks first, so that none starts."""
    chain = job.get("chain", [job["id"]])
    alive = chain[chain.index(state.job_id) :] if state.job_id else chain
    return alive[::-1]
