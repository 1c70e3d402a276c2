# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What a job starts on every GPU: one rank of the run in LAB_RUN_DIR, from frozen code; or one command, recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ..errors import Failed, LabError
from ..machine.ranks import discover
from ..machine.stop import PREEMPTION, STOP
from ..project import Project
from ..record.run import Run


def rank_command(project: Project, args: list[str]) -> int:
    """`lab rank` trains, `lab rank -- COMMAND` runs any command; both only inside a job."""
    STOP.listen(*PREEMPTION)
    if "LAB_RUN_DIR" not in os.environ:
        raise LabError("lab rank is started by a job script. To train here: lab train; to send a job: lab submit")
    run = Run.open(Path(os.environ["LAB_RUN_DIR"]))
    if args[:1] == ["--"]:
        return run_command(project, run, args[1:])
    return train(project, run)


def train(project: Project, run: Run) -> int:
    """This process's part of the next attempt; the first rank keeps the record."""
    from ..fit.start import attempt, join

    if discover().rank == 0:
        return attempt(project, run, overrides=[])
    os.environ["LAB_ATTEMPT"] = os.environ["LAB_NEXT_ATTEMPT"]
    return join()


def run_command(project: Project, run: Run, command: list[str]) -> int:
    """Runs `command` as an attempt of `run`, which the first rank records; its exit code is ours, signals reach it too.

    Raises:
        Failed: the command does not exist.
    """
    attempt = run.begin(project, command=command) if discover().rank == 0 else None
    inherited = {key: value for key, value in os.environ.items() if key not in ("LAB_RUN_DIR", "LAB_ATTEMPT")}
    inherited["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    try:
        process = subprocess.Popen(
            command, env=inherited
        )  # while we listen: an ignored signal would stay ignored in it
    except OSError as error:
        if attempt:
            attempt.end("failed", exception=error)
        raise Failed(f"cannot start {command[0]!r}: {error.strerror}") from error
    for signum in PREEMPTION:
        signal.signal(signum, lambda number, _: process.send_signal(signal.SIGTERM))
    code = process.wait()
    if attempt:
        attempt.end("finished" if code == 0 else "interrupted" if code < 0 else "failed", exit_code=code)
    return code if code >= 0 else 128 - code
