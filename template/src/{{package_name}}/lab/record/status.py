# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What became of a run, worked out from what its processes left behind."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .atomic import read_json
from .attempt_files import NONE, read_attempts
from .process import pid_space, pid_started

STATES = ("queued", "running", "finished", "failed", "interrupted", "lost")
SILENT_S = 600  # without a heartbeat for so long, a process on another machine counts as dead
# A run's record -> its job is "queued", "running", "unknown" (to this machine or person); None when it is over.
JobStateOf = Callable[[dict], str | None]


def status_of(
    run_dir: Path, scheduler: JobStateOf | None = None, record: dict | None = None
) -> str:
    """One of STATES. `scheduler` answers for runs that have a job; without it their heartbeat counts alone."""
    summary = read_json(run_dir / "summary.json")
    preempted = (
        summary and summary["status"] == "interrupted" and (run_dir / "requeue").exists()
    )  # may be queued again
    if summary is not None and not preempted:
        return summary["status"]
    record = record or read_json(run_dir / "run.json") or {}
    job = record.get("job")
    says = scheduler(record) if scheduler and job else "unknown"
    last = (read_attempts(run_dir) or [NONE])[-1]
    if says in ("queued", "running"):
        return says
    if preempted and job and says == "unknown":
        return "queued"
    if last["end"]:  # killed between end.json and summary.json
        return last["end"]["status"]
    if says is None:
        return "lost"  # the scheduler no longer knows it, and it never said how it ended
    if job and not last["start"]:
        return "queued"
    living = alive(last["start"] or record.get("process") or {})
    if living is None:
        living = silence_s(run_dir, last["n"]) < SILENT_S
    return "running" if living else "lost"


def alive(process: dict) -> bool | None:
    """Whether the process runs; None when its pid means nothing here (another machine, container or boot)."""
    if process.get("pid_space") != pid_space():
        return None
    return pid_started(process["pid"]) == process.get("pid_started")


def silence_s(run_dir: Path, n: int) -> float:
    """Seconds since the last heartbeat of attempt `n`, or else since the run was recorded."""
    for path in (
        run_dir / f"attempts/{n}/heartbeat",
        run_dir / f"attempts/{n}/start.json",
        run_dir / "run.json",
    ):
        with suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime
    return math.inf
