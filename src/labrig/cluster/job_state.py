"""The state of a job, as its scheduler says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobState:
    """A job that the scheduler knows.

    Args:
        state: "queued", "running", or "unknown" where it cannot be asked from here.
        reason: why it is queued or unknown, in words.
        elapsed_s: how long it has run.
        job_id: of the chunk that is meant, where a run has several jobs.
    """

    state: str
    reason: str
    elapsed_s: int = 0
    job_id: str = ""
