"""The attempt of a command: its directory is filled before it begins, and listed when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import env
from ...errors import Failed
from ...machine.disk_errors import explain_disk_error
from ...project import Project
from ...record.read.run import Run, run_record
from ...record.write.attempt import Attempt
from ...record.write.begin import prepare_attempt, withdraw_attempt
from ..schedulers.job_variables import command_environment
from .work_directory import WorkDirectory, fill, list_outputs, remove_copies

AWAIT_S = 600


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


def join_command(project: Project, run: Run) -> Path | None:
    """Where another rank than the first starts the command, once the first has begun the attempt."""
    start = run.dir / "attempts" / os.environ[env.NEXT_ATTEMPT] / "start.json"
    end_s = time.monotonic() + AWAIT_S
    while not start.exists():
        if time.monotonic() > end_s:
            raise Failed(
                f"the first rank has not begun its attempt within {AWAIT_S} s. "
                f"Its log: lab logs {run.id}"
            )
        time.sleep(0.1)
    work = WorkDirectory.of(run.dir, project)
    return work.project if work else None


@dataclass(frozen=True)
class CommandAttempt:
    """An attempt that runs a command; the first rank records it.

    Args:
        work: where the command runs; None: in the current directory.
        is_shared: whether other ranks run in `work` too, and may still read its files at the end.
    """

    project: Project
    command: list[str]
    attempt: Attempt
    work: WorkDirectory | None
    is_shared: bool = False

    @classmethod
    def begin(
        cls, project: Project, run: Run, command: list[str], *, is_shared: bool = False
    ) -> CommandAttempt:
        """Begins the next attempt of `run`."""
        attempt = prepare_attempt(run, project)
        work = WorkDirectory.of(run.dir, project)
        try:
            if work:
                fill(work, project)
            attempt.start(command=command)
        except OSError as error:
            withdraw_attempt(attempt)
            reason = explain_disk_error(error, run.dir) or error
            raise Failed(
                f"the command cannot begin in {run.dir}: {reason}. Then lab submit again"
            ) from error
        return cls(project, command, attempt, work, is_shared)

    @property
    def cwd(self) -> Path | None:
        """Where the command starts."""
        return self.work.project if self.work else None

    def end(self, status: str, **measured: Any) -> None:
        """Records how it ended and what the command wrote, and removes the copy of the code."""
        if self.work:
            # Whoever was stopped has little time left.
            measured["outputs"] = list_outputs(self.work, may_read=status != "interrupted")
        used_s = gpu_seconds(self.attempt.run_dir, self.attempt, self.command)
        self.attempt.end(status, gpu_seconds=used_s, **measured)
        if self.work and not self.is_shared:
            remove_copies(self.work, self.project)
