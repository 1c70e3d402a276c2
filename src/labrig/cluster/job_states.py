"""The state of a run's job, as its scheduler says."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import Failed, LabError
from ..record.process import user
from ..record.run import Run
from ..record.schema import RunRecord
from ..record.status import JobStateOf, JobWordsOf, alive
from .job_end import how_job_ended
from .job_state import JobState


class JobStates:
    """Answers for many runs. Each scheduler is asked once, when the first run needs its answer."""

    def __init__(self) -> None:
        # scheduler -> its jobs, or why it does not answer
        self._answers: dict[str, dict[str, JobState] | str] = {}

    def of(self, record: RunRecord) -> JobState | None:
        """The state of the job in a run's record.

        Returns:
            "queued" or "running"; "unknown", with the reason, when this machine cannot tell;
            None when there is no job or it is over.
        """
        job = record.get("job")
        if not job:
            return None
        if "id" not in job:
            is_being_sent = job.get("sending") and alive(record["process"]) is not False
            return JobState("unknown", "it is being sent") if is_being_sent else None
        if record["who"] != user():
            return JobState("unknown", f"it belongs to {record['who']}")
        if job["scheduler"] == "local" and record["host"] != platform.node():
            return JobState("unknown", f"it is on {record['host']}")
        jobs = self._ask(job["scheduler"])
        if isinstance(jobs, str):
            return JobState("unknown", jobs)
        if "chain" not in job:
            return jobs.get(job["id"])
        chunks = [replace(jobs[chunk], job_id=chunk) for chunk in job["chain"] if chunk in jobs]
        return next(iter(chunks), None)

    def _ask(self, scheduler: str) -> dict[str, JobState] | str:
        if scheduler not in self._answers:
            from .schedulers import scheduler_of  # needless for runs that are not jobs

            try:
                self._answers[scheduler] = scheduler_of(scheduler).jobs()
            except Failed as error:
                self._answers[scheduler] = str(error)
        return self._answers[scheduler]


def job_state_of() -> JobStateOf:
    """A function from a run's record to the word for its job's state.

    lab.record, which asks no scheduler itself, is given this function.
    """
    states = JobStates()

    def word_of(record: RunRecord) -> str | None:
        job = states.of(record)
        return None if job is None else job.state

    return word_of


def job_words_of() -> JobWordsOf:
    """A function from a run to what is known of its job, in words.

    lab.record, which asks no scheduler itself, is given this function.
    """
    states = JobStates()

    def words_of(run_dir: Path, record: RunRecord) -> str | None:
        job = record.get("job") or {}
        if "id" not in job:
            return f"refused: {job['refused']}" if "refused" in job else None
        state = states.of(record)
        words = how_job_ended(run_dir, record) if state is None else state.reason
        return f"{job['id']} on {job['site']}" + (f": {words}" if words else "")

    return words_of


def require_job(run: Run) -> dict[str, Any]:
    """The job of a run's record.

    Raises:
        LabError: it has none.
    """
    job = run.record.get("job") or {}
    if "id" not in job:
        raise LabError(
            f"{run.id} has no job: it was trained in a terminal, or never sent."
            f" See: lab runs show {run.id}"
        )
    return job
