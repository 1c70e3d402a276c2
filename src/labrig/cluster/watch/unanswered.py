"""Jobs that were sent, and of which the scheduler has not said whether it has them; the runs of one script or array.

Each job carries the id of its run, so the scheduler can be asked for it: at once, and at the next look.
Until then the record calls the job `unknown`, and no second one is sent.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import cast

from ...errors import Failed, LabError
from ...record.files.schema import Job, RunRecord
from ...record.read.find import number_of_array, number_of_job
from ...record.read.run import Run
from ..schedulers.job import run_dirs_of

PAUSES_S = (1, 2, 4, 8, 16, 32)  # before each further question about a job that was just sent
SURE_S = 180  # after the sending: a scheduler that answers, and lacks the job, never got it
NOT_SETTLED = ("sending", "unknown", "refused")  # keys of a section `job` without an id
NOTE = "job.id"  # in a run's directory: the number of its job, which the job script writes


def waits_here(job: Job) -> bool:
    """Whether a section `job` is of a run that was not sent yet, as too many jobs were queued."""
    return "waiting" in job and not any(key in job for key in ("id", *NOT_SETTLED))


def without(job: Job, *names: str) -> Job:
    """A section `job` without some of its keys."""
    return cast("Job", {key: value for key, value in job.items() if key not in names})


class Unsettled(Failed):
    """Nobody knows yet whether the scheduler has a job."""


def directory_of(record: RunRecord) -> Path | None:
    """The directory of a run with a job; None when it has moved since.

    All runs of a submission lie under one root: <runs>/<trial>/<run id>.
    """
    script = Path((record.get("job") or {}).get("script", ""))
    if len(script.parents) < 3:
        return None
    directory = script.parents[2] / record["trial"].replace("/", "+") / record["run_id"]
    return directory if directory.is_dir() else None


def settle(record: RunRecord) -> Job | None:
    """The section `job` of a run whose job had no id, with its id now; the record is written.

    Returns:
        None when the scheduler never got the job. The record then says that it was refused; one that
        waited here waits on.

    Raises:
        Unsettled: the scheduler does not answer, or may still get the job.
    """
    job = record["job"]
    if "script" not in job:  # the command that sends it was killed before
        return None
    job = without(job, *NOT_SETTLED)
    words = record["job"].get("unknown", "the command that sent it broke off")
    try:
        number = noted_number(record) or newest_number(job)
    except Failed as error:
        write_job(record, job | {"unknown": words})
        raise Unsettled(str(error)) from error
    if number:
        return write_job(record, with_id(without(job, "waiting", "others"), number))
    if time.time() - job["submitted_unix_s"] > SURE_S:
        if "waiting" in job:
            return write_job(record, job)
        write_job(record, job | {"refused": f"the scheduler never got it: {words}"})
        return None
    write_job(record, job | {"unknown": words})
    raise Unsettled(
        f"{job['scheduler']} does not have it yet, but may still get it: {words}. Ask again: lab queue"
    )


def ask_for_number(job: Job, pauses_s: tuple[int, ...] = PAUSES_S) -> str | None:
    """The number of a job that was just sent, asked for until the scheduler knows it.

    Returns:
        None when the scheduler answered the last question, and does not have the job.

    Raises:
        Failed: it did not answer the last question.
    """
    for pause_s in pauses_s:
        with suppress(Failed):
            number = newest_number(job)
            if number:
                return number
        time.sleep(pause_s)
    return newest_number(job)


def newest_number(job: Job) -> str | None:
    """The number of the newest job that the scheduler has for a submission; None when it has none.

    Raises:
        Failed: the scheduler does not answer.
    """
    from ..schedulers import scheduler_of  # needless for jobs that have an id

    first_run = Path(job["script"]).parent.name
    others = [*job.get("earlier_ids", []), *job.get("others", [])]
    earlier = {number_of_job(job_id) for job_id in others}
    sent = scheduler_of(job["scheduler"]).numbers_sent_for(first_run)
    numbers = [number for number in sent if number not in earlier]
    return numbers[-1] if numbers else None


def noted_number(record: RunRecord) -> str | None:
    """The number that the job script has written when it started; None before."""
    directory = directory_of(record)
    if directory is None:
        return None
    try:
        return (directory / NOTE).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def with_id(job: Job, number: str) -> Job:
    """A section `job` with the id of the job that has this number."""
    from ..schedulers import scheduler_of  # needless for jobs that have an id

    index = job.get("index")
    job_id = number if index is None else scheduler_of(job["scheduler"]).id_in_array(number, index)
    return job | {"id": job_id}


def write_job(record: RunRecord, job: Job) -> Job:
    """Changes the section `job` of a record, here and in its file; returns it."""
    changed = job != record["job"]
    record["job"] = job
    directory = directory_of(record)
    if changed and directory:
        with suppress(OSError, LabError):  # a read-only disk: the scheduler is asked again
            Run.open(directory).update(job=job)
    return job


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
