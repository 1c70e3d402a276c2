"""The GPU-seconds of any command that a job runs: it holds all GPUs of its job."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from ...record.read.run import run_record
from ...record.write.attempt import Attempt
from ..schedulers.job_variables import command_environment

# Starts the command of `lab submit -- COMMAND` on a rank.

# Schedulers send these to every process of a job, and most programs end by them at once.
NOT_FOR_COMMANDS = (signal.SIGUSR1, signal.SIGUSR2)


def start_command(command: list[str], run_dir: Path, cwd: Path | None = None) -> subprocess.Popen:
    """A process of `command` that ignores SIGUSR1 and SIGUSR2. The rank tells it to stop, by SIGTERM.

    Args:
        cwd: where it starts; None: in the current directory.

    Raises:
        OSError: it cannot be started.
    """
    environment = command_environment(run_dir)
    return subprocess.Popen(command, env=environment, cwd=cwd, preexec_fn=ignore_signals)


def ignore_signals() -> None:
    """In the new process, before the command: what is ignored stays so."""
    for signum in NOT_FOR_COMMANDS:
        signal.signal(signum, signal.SIG_IGN)


def gpu_seconds(run_dir: Path, attempt: Attempt, command: list[str]) -> float:
    """All GPUs of the job, for as long as the attempt has run; 0 for a `lab` command.

    The runs that a `lab` command makes, such as the points of a sweep, count themselves.
    """
    if Path(command[0]).name == "lab" or "labrig" in command:
        return 0.0
    record = run_record(run_dir)  # now: when it began, it was just being sent
    job = record.get("job") or {}
    return round(attempt.seconds() * job.get("nodes", 0) * job.get("gpus", 0), 3)
