"""The GPU-seconds of any command that a job runs: it holds all GPUs of its job."""

from __future__ import annotations

from pathlib import Path

from ..record.atomic import read_json
from ..record.attempt import Attempt


def gpu_seconds(run_dir: Path, attempt: Attempt, command: list[str]) -> float:
    """All GPUs of the job, for as long as the attempt has run; 0 for a `lab` command.

    The runs that a `lab` command makes, such as the points of a sweep, count themselves.
    """
    if Path(command[0]).name == "lab" or "labrig" in command:
        return 0.0
    record = read_json(run_dir / "run.json") or {}  # now: when it began, it was just being sent
    job = record.get("job") or {}
    return round(attempt.seconds() * job.get("nodes", 0) * job.get("gpus", 0), 3)
