"""The status of a run, from what its processes left and what the scheduler says."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...providers import provided
from ..files.atomic import read_advisory
from ..files.checkpoint_files import files_of, link_or_copy, n_bytes_of
from ..files.manifest import list_moved
from ..files.process import pid_space, pid_started
from ..files.schema import EndRecord, ProcessFacts, RunRecord, SummaryRecord
from .attempt_files import AttemptFiles, last_attempt, read_attempts
from .run import run_record

# How a run ended, over all its attempts: a run that has finished stays finished.
#
# A later attempt that fails, is interrupted or is killed leaves the run its numbers. The weights of
# these numbers stay too, as checkpoints/finished.ckpt, when that attempt has saved others.

# Of several attempts the last one with the first of these ends counts: finished; the fit finished
# and the test did not.
ROWS = "rows.json"  # of an attempt: the hash of the metrics at its last checkpoint
COUNT_FIRST = ("finished", "trained")
FINISHED_WEIGHTS = "finished.ckpt"


def deciding_attempt(attempts: list[AttemptFiles]) -> AttemptFiles | None:
    """The attempt whose status and metrics are those of the run; None when there is none."""
    for status in COUNT_FIRST:
        for attempt in reversed(attempts):
            if attempt.end.get("status") == status:
                return attempt
    return attempts[-1] if attempts else None


def status_at_end(attempts: list[AttemptFiles]) -> str:
    """The status of a run on which nobody works: how it ended, or lost when it did not write it."""
    deciding = deciding_attempt(attempts)
    return deciding.end["status"] if deciding and deciding.end else "lost"


def set_result_aside(run_dir: Path) -> None:
    """Makes room for a further attempt of a run that had ended.

    If it finished, its weights get a second name, which the next checkpoints do not replace. Its
    summary moves to its last attempt, because the run is running again.
    """
    attempts = read_attempts(run_dir)
    if not attempts:
        return
    deciding = deciding_attempt(attempts)
    if deciding and deciding.end.get("status") in COUNT_FIRST:
        link_finished_weights(run_dir / "checkpoints", deciding.end)
    summary = run_dir / "summary.json"
    if summary.exists():
        aside = f"attempts/{attempts[-1].n}/summary.json"
        list_moved(run_dir, summary.name, aside)
        os.replace(summary, run_dir / aside)


def link_finished_weights(checkpoints: Path, end: EndRecord) -> None:
    """Makes finished.ckpt from last.ckpt, unless an earlier attempt has left it.

    Args:
        end: end.json of the attempt whose weights they are. A file of another size is damaged.
    """
    last = checkpoints / "last.ckpt"
    finished = checkpoints / FINISHED_WEIGHTS
    recorded = end.get("checkpoints", {}).get(last.name, {})
    if finished.exists() or not last.exists() or n_bytes_of(last) != recorded.get("bytes"):
        return
    link_or_copy(last, finished)


def final_weights(checkpoints: Path) -> Path:
    """The checkpoint with the weights of the run's numbers; it may not exist."""
    finished = checkpoints / FINISHED_WEIGHTS
    return finished if finished.exists() else checkpoints / "last.ckpt"


def weights_of_numbers(run_dir: Path, checkpoints: Path) -> Path:
    """The checkpoint with the weights that were tested; it may not exist."""
    deciding = deciding_attempt(read_attempts(run_dir))
    best = checkpoints / "best.ckpt"
    if deciding and deciding.start.get("tested_weights") == "best" and best.exists():
        return best
    return final_weights(checkpoints)


def needless_weights(run_dir: Path, status: str) -> Path | None:
    """finished.ckpt, when an attempt that ends with `status` makes it needless; else None.

    That is so when the attempt finished, or saved no checkpoint.
    """
    finished = run_dir / "checkpoints" / FINISHED_WEIGHTS
    last = run_dir / "checkpoints" / "last.ckpt"
    if not finished.exists() or not last.exists():
        return None
    inodes = [[file.stat().st_ino for file in files_of(path)] for path in (finished, last)]
    return finished if status == "finished" or inodes[0] == inodes[1] else None


# Files in the directory of a run.
JOB_OVER = "job.over"  # its scheduler was asked, and no longer holds its job
CANCELLED = "cancelled"  # of `lab cancel` and of the guard, with the reason as its text

ENDED = (
    "finished",
    "trained",
    "failed",
    "interrupted",
    "cancelled",  # before it began, or without an end
    "refused",  # by the scheduler
    "lost",
    "damaged",
)
# unknown: it was sent, and the scheduler has not said whether it has the job
UNENDED = ("running", "queued", "unknown")
STATES = (*ENDED, *UNENDED)
SILENT_S = 600  # without a heartbeat for so long, a process on another machine counts as dead
# Asks the scheduler for the state of a run's job: "queued", "running", "unknown" (to this machine
# or person), or None when it is over.
JobStateOf = Callable[[RunRecord], str | None]
# What is known of the job of a run, in words: why it waits, or how it ended; None without a job.
JobWordsOf = Callable[[Path, RunRecord], str | None]


def job_state_of() -> JobStateOf | None:
    """Asks the schedulers about jobs; None where no room of this library knows them."""
    make = provided("job_state_of")
    return make() if make else None


def job_words_of() -> JobWordsOf | None:
    """What is known of a run's job, in words; None where no room of this library knows."""
    make = provided("job_words_of")
    return make() if make else None


def status_of(
    run_dir: Path, job_state_of: JobStateOf | None = None, record: RunRecord | None = None
) -> str:
    """One of STATES. The first line of this table that holds decides.

    =============================================================  =================
    what is there                                                  status
    =============================================================  =================
    summary.json of a run that finished, or that has no job        its status
    a job that the scheduler calls queued or running               what it says
    a job of which nobody knows whether the scheduler has it       unknown
    a preempted run whose scheduler does not answer                queued
    summary.json                                                   its status
    end.json of the last attempt (killed before summary.json)      how the run ended
    a job that is over                                             how the run ended
    a job, and no attempt has begun                                queued
    a process that lives on this machine                           running
    a process elsewhere, with a heartbeat in the last 10 minutes   running
    none of these                                                  how the run ended
    =============================================================  =================

    A run is preempted when it was interrupted, the file `requeue` asks for another attempt, and
    nobody cancelled it. A job that was over when it was looked at is not asked about again.
    How a run ended: finished if any attempt finished, trained if only the fit of one did, else as
    its last attempt says; refused, cancelled or lost when that says nothing.

    Args:
        job_state_of: asks the scheduler about a run with a job; without it all jobs are unknown.
        record: run.json, when it was read before.
    """
    summary = read_advisory(run_dir / "summary.json", SummaryRecord)
    preempted = is_preempted(run_dir, summary)
    if summary is not None and summary["status"] in COUNT_FIRST and not preempted:
        return summary["status"]

    facts: RunRecord = record or run_record(run_dir)
    has_job = bool(facts.get("job"))
    job_state: str | None = "unknown"
    if has_job and (run_dir / JOB_OVER).exists():
        job_state = None
    elif has_job and job_state_of:
        job_state = job_state_of(facts)
    if job_state in ("queued", "running"):
        return job_state
    job = facts.get("job") or {}  # which may be settled now
    if job_state == "unknown" and "unknown" in job:
        return "unknown"
    if preempted and has_job and job_state == "unknown":
        return "queued"
    if summary is not None:
        return summary["status"]

    attempt = last_attempt(run_dir)
    is_over = job_state is None or bool(attempt and attempt.end)
    if not is_over and has_job and not (attempt and attempt.start):
        return "queued"
    if not is_over and seems_alive(run_dir, facts, attempt):
        return "running"
    status = status_at_end(read_attempts(run_dir))
    if status != "lost":
        return status
    if "refused" in job:
        return "refused"
    return "cancelled" if (run_dir / CANCELLED).exists() else "lost"


def is_preempted(run_dir: Path, summary: dict[str, Any] | None) -> bool:
    """Whether a run waits for its job to start it again."""
    if not was_interrupted(summary) or (run_dir / CANCELLED).exists():
        return False
    return (run_dir / "requeue").exists()


def may_run_again(run_dir: Path, summary: dict[str, Any]) -> bool:
    """Whether a run with a summary may have a job that starts it again: its scheduler knows."""
    if is_preempted(run_dir, summary):
        return True
    if summary["status"] in COUNT_FIRST or (run_dir / JOB_OVER).exists():
        return False
    return bool(run_record(run_dir).get("job"))


def was_interrupted(summary: dict[str, Any] | None) -> bool:
    """Whether the last attempt of an ended run was interrupted. A run that finished before stays so."""
    return summary is not None and summary.get("attempt_status", summary["status"]) == "interrupted"


def seems_alive(run_dir: Path, record: RunRecord, attempt: AttemptFiles | None) -> bool:
    """Whether the process of a run lives here, or elsewhere has touched its heartbeat lately."""
    process = record.get("process") or {}
    if attempt and attempt.start:
        process = attempt.start
    lives = alive(process)
    if lives is None:
        return silence_s(run_dir, attempt.n if attempt else 0) < SILENT_S
    return lives


def alive(process: ProcessFacts) -> bool | None:
    """Whether a process runs.

    None when its pid means nothing here: it is from another machine, container or boot.
    """
    if process.get("pid_space") != pid_space():
        return None
    return pid_started(process.get("pid", 0)) == process.get("pid_started")


def silence_s(run_dir: Path, n: int) -> float:
    """Seconds since the last heartbeat of attempt `n`, else since its start or the run's."""
    signs = (f"attempts/{n}/heartbeat", f"attempts/{n}/start.json", "run.json")
    for sign in signs:
        with suppress(FileNotFoundError):
            return time.time() - (run_dir / sign).stat().st_mtime
    return math.inf
