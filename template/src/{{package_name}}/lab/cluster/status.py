# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What the schedulers say of the jobs in the records; each is asked at most once per command."""

from __future__ import annotations

from functools import cache

from ..errors import Failed
from ..project import Project
from ..record.attempt import Scheduler
from .local import scheduler_of
from .scheduler import JobState


def asker(project: Project) -> Scheduler:
    """For `lab.record`: a record's `job` -> "queued", "running", or None when the scheduler no longer knows it."""
    states = live_jobs()

    def ask(job: dict) -> str | None:
        if "id" not in job:
            return "queued" if job.get("sending") else None
        known = states(job["scheduler"])
        if known is None:  # no answer: not the same as "over"
            return "queued"
        found = known.get(job["id"])
        return found.state if found else None

    return ask


def live_jobs():
    """A function scheduler's name -> its jobs by id, None when it does not answer."""

    @cache
    def states(scheduler: str) -> dict[str, JobState] | None:
        try:
            return scheduler_of(scheduler).jobs()
        except Failed:
            return None

    return states
