"""Runs that wait here, as their user may not queue more jobs, and are sent when there is a place."""

from __future__ import annotations

import fcntl
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...errors import Failed, LabError, Refused
from ...machine.text_formats import counted
from ...record.files.schema import Job, RunRecord
from ...record.read.run import Run
from ...record.read.status import CANCELLED
from ..schedulers import scheduler_of
from ..schedulers.command import Unanswered
from ..schedulers.job import JobRequest
from ..submit.after import options_of_after
from .job_states import series_of
from .unanswered import NOT_SETTLED, runs_of, waits_here, without

LOCK = "waiting.lock"  # beside the job script: one process sends its runs at a time


def send_waiting(records: list[RunRecord]) -> int:
    """Sends the runs that wait here, as far as there are places; returns how many were sent."""
    scripts = sorted(
        {
            record["job"]["script"]
            for record in records
            if series_of(platform.node()) == series_of(record["host"] or "")
        }
    )
    n_sent = 0
    for script in map(Path, scripts):
        try:
            with only_sender(script, waits=False):
                n_sent += send_next(script)
        except BlockingIOError:
            continue  # another command sends them
        except (LabError, OSError) as error:
            print(f"lab: {error}", file=sys.stderr)
    if n_sent:
        print(f"lab: sent {counted(n_sent, 'run')} that waited here", file=sys.stderr)
    return n_sent


@contextmanager
def only_sender(script: Path, waits: bool = True) -> Iterator[None]:
    """No other process sends or cancels the waiting runs of a script meanwhile.

    Raises:
        BlockingIOError: another one does, and waits is False.
    """
    with open(script.parent / LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield


def send_next(script: Path) -> int:
    """Sends the next runs of an array that fit; returns how many.

    While others of the array are queued or running, all together are at most its throttle.

    Raises:
        Failed: the scheduler does not answer.
    """
    runs = runs_of(script)
    waiting = [run for run in runs if waits_here(run.record["job"])]
    if not waiting or any(is_unsettled(run.record["job"]) for run in runs):
        return 0
    job = waiting[0].record["job"]
    how = job["waiting"]
    scheduler = scheduler_of(job["scheduler"])
    try:
        waits = options_of_after(waiting[0].record.get("after"), job["scheduler"])
    except Refused as error:
        for run in waiting:
            run.update(job=without_waiting(run.record["job"]) | {"refused": str(error)})
        raise
    if waits is None:
        return 0
    jobs = scheduler.jobs()
    ids = [run.record["job"]["id"] for run in runs if "id" in run.record["job"]]
    n_alive = sum(job_id in jobs for job_id in ids)
    n_free = len(waiting)
    if how["max_jobs"] is not None:
        n_free = how["max_jobs"] - scheduler.n_jobs(how["counted"])
    if n_alive:
        n_free = min(n_free, how["throttle"] - n_alive)
    if n_free < 1:
        return 0
    following = next_runs(waiting, n_free)
    send_these(script, following, ids, waits)
    return len(following)


def is_unsettled(job: Job) -> bool:
    return "id" not in job and ("sending" in job or "unknown" in job)


def next_runs(waiting: list[Run], n: int) -> list[Run]:
    """The first runs, `n` at most, whose indices follow each other."""
    first = waiting[0].record["job"].get("index", 0)
    return [
        run
        for place, run in enumerate(waiting[:n])
        if run.record["job"].get("index", 0) == first + place
    ]


def send_these(script: Path, runs: list[Run], sent_ids: list[str], waits: list[str]) -> None:
    """Sends runs of an array, and records the answer.

    Args:
        sent_ids: of jobs with the same script, which are not the job that is asked for.
        waits: options with which their job waits for the runs before them.
    """
    from ..submit.send import send_piece  # which composes, and listing jobs does not

    jobs = [
        run.record["job"] | {"submitted_unix_s": round(time.time(), 3), "others": sent_ids}
        for run in runs
    ]
    for run, job in zip(runs, jobs, strict=True):
        run.update(job=job | {"sending": True})
    how = jobs[0]["waiting"]
    scheduler = scheduler_of(jobs[0]["scheduler"])
    try:
        request = request_of(jobs[0])
        request = replace(request, submit_options=[*request.submit_options, *waits])
        ids = send_piece(scheduler, request, script, jobs, how["throttle"])
    except LabError as error:
        is_unknown = isinstance(error, Unanswered)
        for run, job in zip(runs, jobs, strict=True):
            run.update(job=job | ({"unknown": str(error)} if is_unknown else {}))
        what = "nobody knows yet whether it has them" if is_unknown else "they wait on"
        raise Failed(f"{counted(len(runs), 'run')} that waited here: {what}. {error}") from error
    for run, job, job_id in zip(runs, jobs, ids, strict=True):
        run.update(job=without_waiting(job) | {"id": job_id})


def request_of(job: Job) -> JobRequest:
    """What the scheduler is told on its command line; the rest is in the job script."""
    how = job["waiting"]
    return JobRequest(
        name=how["name"],
        nodes=job["nodes"],
        gpus=job["gpus"],
        tasks_per_node=1,
        cpus_per_task=1,
        time_s=job["limit_s"],
        lead_s=job["lead_s"],
        submit_options=how["options"],
    )


def without_waiting(job: Job) -> Job:
    """A section `job` without what is known of waiting."""
    return without(job, "waiting", "others", *NOT_SETTLED)


def cancel_waiting(run: Run) -> bool:
    """Takes a run out of those that wait here; False when it was sent meanwhile."""
    with only_sender(Path(run.record["job"]["script"])):
        now = Run.open(run.dir)
        if not waits_here(now.record["job"]):
            return False
        (run.dir / CANCELLED).touch()
        now.update(job=without_waiting(now.record["job"]) | {"cancelled": True})
    print(f"cancelled run {run.id}, which waited here")
    return True
