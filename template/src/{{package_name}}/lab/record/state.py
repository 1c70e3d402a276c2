# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What became of a run, worked out from what its processes left behind; no process is trusted to have said it."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from .attempt import attempt_numbers
from .environment import pid_space, pid_started
from .files import read_json

STATES = ("queued", "running", "finished", "failed", "interrupted", "lost")
SILENT_S = 600  # without a heartbeat for so long, a process on another machine counts as dead

Scheduler = Callable[[dict], str | None]  # the record's `job` -> "queued", "running", or None when it is over


def status(run_dir: Path, scheduler: Scheduler | None = None, record: dict | None = None) -> str:
    """One of STATES. `scheduler` answers for runs that have a job; without it their heartbeat counts alone."""
    summary = read_json(run_dir / "summary.json")
    if summary is not None:
        return summary["status"]
    record = record or read_json(run_dir / "run.json") or {}
    job = record.get("job")
    says = scheduler(job) if scheduler and job else None
    numbers = attempt_numbers(run_dir)
    folder = run_dir / "attempts" / str(numbers[-1]) if numbers else None
    end = read_json(folder / "end.json") if folder else None
    if says:
        return says
    if end is not None:  # killed between end.json and summary.json
        return end["status"]
    start = read_json(folder / "start.json") if folder else None
    if start is None:
        if job:
            return "lost" if scheduler else "queued"
        return "running" if alive(record.get("process") or {}) else "lost"
    if job and scheduler:
        return "lost"  # the scheduler no longer knows it, and it never said how it ended
    living = alive(start)
    return "running" if living or (living is None and silence_s(folder) < SILENT_S) else "lost"


def alive(process: dict) -> bool | None:
    """Whether the process runs; None when its pid means nothing here (another machine, container or boot)."""
    if process.get("pid_space") != pid_space():
        return None
    return pid_started(process["pid"]) == process.get("pid_started")


def silence_s(folder: Path) -> float:
    """Seconds since the last heartbeat of the attempt in `folder`."""
    for name in ("heartbeat", "start.json"):
        try:
            return time.time() - os.stat(folder / name).st_mtime
        except FileNotFoundError:
            continue
    return float("inf")
