"""One task of an array over files: runs the command for each of its files, and notes how each ended."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from ...errors import Failed
from ...machine.counted import counted
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...machine.terminal import printable
from ...project import Project
from ...record.files.manifest import append_listed
from ...record.read.each import DONE, PLACE, InputFile, Inputs, done_files
from ...record.read.run import Run
from .command import start_command
from .command_attempt import CommandAttempt


class Commands:
    """Starts one command after the other, until a signal asks to stop."""

    def __init__(self, run_dir: Path, cwd: Path | None) -> None:
        self.run_dir = run_dir
        self.cwd = cwd  # where each starts
        self.must_stop = bool(STOP.signum)  # a signal that came before
        self.process: subprocess.Popen | None = None
        for signum in PREEMPTION_SIGNALS:
            signal.signal(signum, self.stop)

    def stop(self, signum: int, frame: FrameType | None) -> None:
        self.must_stop = True
        if self.process:
            self.process.send_signal(signal.SIGTERM)

    def run(self, command: list[str]) -> int:
        """The exit code of a command; a negative one is a signal.

        Raises:
            OSError: it cannot be started.
        """
        self.process = start_command(command, self.run_dir, self.cwd)
        if self.must_stop:  # the signal came while it was being started
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait()
        finally:
            self.process = None


def run_over_files(project: Project, run: Run, inputs: Inputs) -> int:
    """Runs the command for each file that is not done; the run fails when one of them does.

    Returns:
        0, 1 when the command failed for a file, 143 when a signal asked to stop.
    """
    attempt = CommandAttempt.begin(project, run, inputs.command)
    commands = Commands(run.dir, attempt.cwd)
    done = done_files(run.dir)
    n_failed = 0
    for number, file in enumerate(inputs.files, start=1):
        if commands.must_stop:
            break
        if file in done:
            continue
        print(f"[{number}/{len(inputs.files)}] {printable(file.path)}", flush=True)
        try:
            exit_code = run_for_file(run, attempt.attempt.n, commands, inputs.command, file)
        except OSError as error:
            attempt.end("failed", exception=error)
            name = inputs.command[0]
            raise Failed(
                f"cannot start {name!r}: {error.strerror}. "
                "Is it on this node, and in PATH? Then lab submit again"
            ) from error
        n_failed += exit_code != 0 and not commands.must_stop
    if commands.must_stop:
        attempt.end("interrupted", exit_code=143, signal=int(signal.SIGTERM))
        return 143
    n_files = len(inputs.files)
    if n_failed:
        print(
            f"failed for {n_failed} of {counted(n_files, 'file')}; type the same again for these",
            flush=True,
        )
    status = "failed" if n_failed else "finished"
    attempt.end(status, exit_code=int(n_failed > 0))
    return int(n_failed > 0)


def run_for_file(
    run: Run, attempt: int, commands: Commands, command: list[str], file: InputFile
) -> int:
    """Runs the command for one file, and notes it unless a signal ended it; the exit code."""
    began_s = time.monotonic()
    try:
        now = InputFile.of(file.path)
    except OSError as error:
        print(f"  {error.strerror}: {printable(file.path)}", flush=True)
        return 1
    exit_code = commands.run([word.replace(PLACE, file.path) for word in command])
    if commands.must_stop and exit_code != 0:
        return exit_code
    if exit_code:
        print(f"  ended with code {exit_code}", flush=True)
    row = {
        **asdict(now),
        "exit_code": exit_code,
        "seconds": round(time.monotonic() - began_s, 3),
        "attempt": attempt,
        "ended_unix_s": round(time.time(), 3),
    }
    append_listed(run.dir, DONE, row)
    return exit_code
