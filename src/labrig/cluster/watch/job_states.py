"""The state of a run's job, as its scheduler says."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...errors import Failed, LabError
from ...record.files.process import user
from ...record.files.schema import Job, RunRecord
from ...record.read.run import Run
from ...record.read.status import JOB_OVER, JobStateOf, JobWordsOf, alive
from ..schedulers.job_state import JobState
from .after import words_of_waiting
from .job_end import how_job_ended
from .unanswered import Unsettled, directory_of, settle, waits_here

WAITS_HERE = "waiting here, as you may not queue more jobs; lab queue sends it when a place is free"


class JobStates:
    """Answers for many runs. Each scheduler is asked once, when the first run needs its answer."""

    def __init__(self) -> None:
        # scheduler -> its jobs, or why it does not answer
        self._answers: dict[str, dict[str, JobState] | str] = {}
        self.waiting: list[RunRecord] = []  # of the runs that were asked for and wait here

    @property
    def silent(self) -> list[str]:
        """Why the schedulers that were asked did not answer, a sentence each."""
        return [answer for answer in self._answers.values() if isinstance(answer, str)]

    def of(self, record: RunRecord) -> JobState | None:
        """The state of the job in a run's record.

        Returns:
            "queued" or "running"; "unknown", with the reason, when this machine cannot tell;
            None when there is no job or it is over, which is remembered in the run's directory.
        """
        job = record.get("job")
        if not job or "refused" in job or "cancelled" in job:
            return None
        if "id" not in job and job.get("sending") and alive(record["process"]) is not False:
            return JobState("unknown", "it is being sent")
        if record["who"] != user():
            return JobState("unknown", f"it belongs to {record['who']}")
        if "id" not in job and not waits_here(job):
            try:
                job = settle(record)
            except Unsettled as error:
                return JobState("unknown", str(error))
            if job is None:
                return None
        if waits_here(job):
            self.waiting.append(record)
            return JobState("queued", WAITS_HERE)
        if job["scheduler"] == "local" and record["host"] != platform.node():
            return JobState("unknown", f"it is on {record['host']}")
        jobs = self._ask(job["scheduler"])
        if isinstance(jobs, str):
            return JobState("unknown", jobs)
        remember_whether_over(record, not any(chunk in jobs for chunk in ids_of(job)))
        if "chain" not in job:
            return jobs.get(job["id"])
        chunks = [replace(jobs[chunk], job_id=chunk) for chunk in job["chain"] if chunk in jobs]
        return next(iter(chunks), None)

    def ids_of(self, scheduler: str) -> set[str]:
        """The ids of all jobs of this user that a scheduler has."""
        jobs = self._ask(scheduler)
        return set() if isinstance(jobs, str) else set(jobs)

    def word_of(self, record: RunRecord) -> str | None:
        """The word for the state of a run's job, for `status_of`."""
        job = self.of(record)
        return None if job is None else job.state

    def reason_of(self, record: RunRecord, state: JobState) -> str:
        """Why a run waits: for the runs before it, else as its scheduler says."""
        reason = ""
        if state.state == "queued" and "after" in record:
            reason = words_of_waiting(record["after"], self.word_of) or ""
        if waits_here(record["job"]):
            return f"waiting here; {reason}" if reason else WAITS_HERE
        return reason or state.reason

    def _ask(self, scheduler: str) -> dict[str, JobState] | str:
        if scheduler not in self._answers:
            from ..schedulers import scheduler_of  # needless for runs that are not jobs

            try:
                self._answers[scheduler] = scheduler_of(scheduler).jobs()
            except Failed as error:
                self._answers[scheduler] = str(error)
        return self._answers[scheduler]


def ids_of(job: Job) -> list[str]:
    """The ids of the jobs of a run: several of a chain."""
    return job.get("chain", [job["id"]])


def remember_whether_over(record: RunRecord, is_over: bool) -> None:
    """Notes in the directory of a run that its scheduler no longer holds its job, or takes it back.

    Another cluster, which shares the disk, does not know the job either: only machines that are named
    like the one that sent it count.
    """
    directory = directory_of(record)
    if directory is None or series_of(platform.node()) != series_of(record["host"] or ""):
        return
    marker = directory / JOB_OVER
    if marker.exists() == is_over:
        return
    with suppress(OSError):  # a read-only disk: the scheduler is asked again
        if is_over:
            marker.touch()
        else:
            marker.unlink(missing_ok=True)


def series_of(host: str) -> str:
    """The name of a machine without its number: login1 and login2 are of one cluster."""
    return re.sub(r"\d+", "", host)


def job_state_of() -> JobStateOf:
    """A function from a run's record to the word for its job's state.

    The record, which asks no scheduler itself, asks for it by name: see PROVIDES of this folder.
    """
    return JobStates().word_of


def job_words_of() -> JobWordsOf:
    """A function from a run to what is known of its job, in words.

    The record, which asks no scheduler itself, asks for it by name: see PROVIDES of this folder.
    """
    states = JobStates()

    def words_of(run_dir: Path, record: RunRecord) -> str | None:
        job = record.get("job") or {}
        state = states.of(record)
        job = record.get("job") or {}  # which may be settled now
        if "refused" in job:
            return f"refused: {job['refused']}"
        if "cancelled" in job:
            return "cancelled while it waited here"
        if state and waits_here(job):
            return f"not sent to {job['site']} yet: {states.reason_of(record, state)}"
        if "id" not in job:
            return f"not known on {job['site']}: {state.reason}" if state else None
        words = states.reason_of(record, state) if state else how_job_ended(run_dir, record)
        return f"{job['id']} on {job['site']}" + (f": {words}" if words else "")

    return words_of


def require_job(run: Run) -> Job:
    """The job of a run's record."""
    job = run.record.get("job") or {}
    if "unknown" in job:
        raise LabError(
            f"{job['scheduler']} has not said whether it has the job of {run.id}: {job['unknown']}\n"
            "Ask it again: lab queue"
        )
    if waits_here(job):
        raise LabError(f"{run.id} has no job yet. It is {WAITS_HERE}")
    if "id" not in job:
        raise LabError(
            f"{run.id} has no job: it was trained in a terminal, or never sent."
            f" See: lab runs show {run.id}"
        )
    return job
