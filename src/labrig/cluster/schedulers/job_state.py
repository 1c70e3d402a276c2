"""The state of a job, as its scheduler says."""

from __future__ import annotations

from dataclasses import dataclass

# How jobs ended, as every scheduler says it: by these job.retry knows what to change.
OUT_OF_MEMORY = "out of memory; ask for more with job.mem, or load less at a time"
OUT_OF_TIME = "killed at its time limit (job.time), before it had saved"
NODE_FAILED = "its node failed ({nodes}); what was saved can be resumed"


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
