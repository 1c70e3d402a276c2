"""What a run that comes after others still waits for, and whether it can ever start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...record.files.after import AfterRuns
from ...record.files.atomic import write_file
from ...record.files.schema import RunRecord
from ...record.read.run import run_record
from ...record.read.status import CANCELLED, UNENDED, JobStateOf, status_of

MAX_NAMED = 3


@dataclass(frozen=True)
class Awaited:
    """A run that another one comes after.

    Args:
        status: as `status_of`, or "deleted".
        record: empty for one that is deleted.
    """

    run_id: str
    status: str
    record: RunRecord

    @property
    def is_open(self) -> bool:
        return self.status in UNENDED

    def __str__(self) -> str:
        return f"run {self.run_id}, which it comes after, is {self.status}"


def awaited_runs(after: AfterRuns, job_state_of: JobStateOf | None = None) -> list[Awaited]:
    """How the runs are now that must be over before.

    Args:
        job_state_of: asks the schedulers; without it what was seen before counts.
    """
    awaited = []
    for run_id, directory in after["runs"].items():
        record = run_record(Path(directory))
        status = status_of(Path(directory), job_state_of, record) if record else "deleted"
        awaited.append(Awaited(run_id, status, record))
    return awaited


def first_unfinished(after: AfterRuns, awaited: list[Awaited]) -> Awaited | None:
    """The run because of which another one can never start; None while it can."""
    if after["when"] == "ended":
        return None
    over = (each for each in awaited if not each.is_open and each.status != "finished")
    return next(over, None)


def words_of_waiting(after: AfterRuns, job_state_of: JobStateOf) -> str | None:
    """What a queued run waits for; None when the runs before it are over as they must be."""
    awaited = awaited_runs(after, job_state_of)
    unfinished = first_unfinished(after, awaited)
    if unfinished:
        return f"{unfinished}; it will never start, lab cancel it"
    still_open = [f"{each.run_id} ({each.status})" for each in awaited if each.is_open]
    if not still_open:
        return None
    more = len(still_open) - MAX_NAMED
    named = ", ".join(still_open[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"waits for {named}"


def words_of_never(run_dir: Path, record: RunRecord) -> str | None:
    """That a job whose run never began is over as a run before it has not finished.

    It is remembered: the run is cancelled.
    """
    after = record.get("after")
    if after is None or (run_dir / "attempts/1/start.json").exists():
        return None
    unfinished = first_unfinished(after, awaited_runs(after))
    if unfinished is None:
        return None
    words = f"never started: {unfinished}"
    write_file(run_dir / CANCELLED, f"{words}\n")
    return words
