# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Runs a command with the frozen code of a run, when the code of today is another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from .. import env
from ..machine.stop import PREEMPTION_SIGNALS
from ..project import Project, package_in
from .frozen import unpack_code
from .run import Run


def run_with_frozen_code(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the frozen code of a run; data and runs stay where they are.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.

    Raises:
        LabError: the code of the run is gone, or was not recorded.
    """
    code = run.record["code"]
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        directory = Path(temporary).resolve() / "code"
        unpack_code(code, project.root, run.dir, directory)
        frozen = env.frozen_environment(
            directory,
            code["prefix"],
            project.root,
            code["commit"],
            env.paths_outside(project.root),
        )
        package = package_in(directory / code["prefix"])
        command = [sys.executable, "-m", f"{package}.lab", *words]
        process = subprocess.Popen(command, env=os.environ | frozen)
        with process, signals_passed_on(process):
            exit_code = wait_for(process)
    return exit_code if exit_code >= 0 else 128 - exit_code


@contextmanager
def signals_passed_on(process: subprocess.Popen) -> Iterator[None]:
    """Sends the signals that ask for a stop to `process`, within the block."""

    def pass_on(signum: int, frame: FrameType | None) -> None:
        process.send_signal(signum)

    previous = {signum: signal.signal(signum, pass_on) for signum in PREEMPTION_SIGNALS}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def wait_for(process: subprocess.Popen) -> int:
    """The exit code of a process, which gets Ctrl-C itself and decides when it ends."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
