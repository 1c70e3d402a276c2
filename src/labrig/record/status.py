"""The status of a run, from what its processes left and what the scheduler says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .atomic import read_json
from .attempt_files import AttemptFiles, last_attempt, read_attempts
from .outcome import status_at_end
from .process import pid_space, pid_started
from .schema import ProcessFacts, RunRecord

ENDED = ("finished", "trained", "failed", "interrupted", "lost", "damaged")
UNENDED = ("running", "queued")
STATES = (*ENDED, *UNENDED)
SILENT_S = 600  # without a heartbeat for so long, a process on another machine counts as dead
# Asks the scheduler for the state of a run's job: "queued", "running", "unknown" (to this machine
# or person), or None when it is over.
JobStateOf = Callable[[RunRecord], str | None]
# What is known of the job of a run, in words: why it waits, or how it ended; None without a job.
JobWordsOf = Callable[[Path, RunRecord], str | None]


def status_of(
    run_dir: Path, job_state_of: JobStateOf | None = None, record: RunRecord | None = None
) -> str:
    """One of STATES. The first line of this table that holds decides.

    =============================================================  =================
    what is there                                                  status
    =============================================================  =================
    summary.json, of a run that was not preempted                  its status
    a job that the scheduler calls queued or running               what it says
    a preempted run with a job that the scheduler does not know    queued
    end.json of the last attempt (killed before summary.json)      how the run ended
    a job that is over                                             how the run ended
    a job, and no attempt has begun                                queued
    a process that lives on this machine                           running
    a process elsewhere, with a heartbeat in the last 10 minutes   running
    none of these                                                  how the run ended
    =============================================================  =================

    A run is preempted when it was interrupted and the file `requeue` asks for another attempt.
    How a run ended: finished if any attempt finished, trained if only the fit of one did, else as
    its last attempt says; lost when that says nothing.

    Args:
        job_state_of: asks the scheduler about a run with a job; without it all jobs are unknown.
        record: run.json, when it was read before.
    """
    summary = read_json(run_dir / "summary.json")
    preempted = was_interrupted(summary) and (run_dir / "requeue").exists()
    if summary is not None and not preempted:
        return summary["status"]

    facts: RunRecord = record or read_json(run_dir / "run.json") or {}
    has_job = bool(facts.get("job"))
    job_state = "unknown"
    if has_job and job_state_of:
        job_state = job_state_of(facts)
    if job_state in ("queued", "running"):
        return job_state
    if preempted and has_job and job_state == "unknown":
        return "queued"

    attempt = last_attempt(run_dir)
    is_over = job_state is None or bool(attempt and attempt.end)
    if not is_over and has_job and not (attempt and attempt.start):
        return "queued"
    if not is_over and seems_alive(run_dir, facts, attempt):
        return "running"
    return status_at_end(read_attempts(run_dir))


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
    return pid_started(process["pid"]) == process.get("pid_started")


def silence_s(run_dir: Path, n: int) -> float:
    """Seconds since the last heartbeat of attempt `n`, else since its start or the run's."""
    signs = (f"attempts/{n}/heartbeat", f"attempts/{n}/start.json", "run.json")
    for sign in signs:
        with suppress(FileNotFoundError):
            return time.time() - (run_dir / sign).stat().st_mtime
    return math.inf
