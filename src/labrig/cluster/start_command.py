"""Starts the command of `lab submit -- COMMAND` on a rank."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from .job_variables import command_environment

# Schedulers send these to every process of a job, and most programs end by them at once.
NOT_FOR_COMMANDS = (signal.SIGUSR1, signal.SIGUSR2)


def start_command(command: list[str], run_dir: Path) -> subprocess.Popen:
    """A process of `command` that ignores SIGUSR1 and SIGUSR2. The rank tells it to stop, by SIGTERM.

    Raises:
        OSError: it cannot be started.
    """
    environment = command_environment(run_dir)
    return subprocess.Popen(command, env=environment, preexec_fn=ignore_signals)


def ignore_signals() -> None:
    """In the new process, before the command: what is ignored stays so."""
    for signum in NOT_FOR_COMMANDS:
        signal.signal(signum, signal.SIG_IGN)
