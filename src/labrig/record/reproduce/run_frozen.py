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

from ... import env
from ...errors import LabError
from ...machine.stop import PREEMPTION_SIGNALS
from ...project import LIBRARY, Project
from ..files.code_section import library_name
from ..freeze.frozen import unpack_code, unpack_library
from ..freeze.library import name_of_this_library
from ..read.run import Run


def run_with_frozen_code(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the frozen code of a run; data and runs stay where they are.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.
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
        return run_lab(words, frozen)


def run_with_its_library(run: Run, project: Project, words: list[str]) -> int:
    """Runs `lab WORDS` with the library that a run began with, and the project as it is.

    Where that library is gone, it says so, and runs the installed one.

    Returns:
        Its exit code, as `run_with_frozen_code`.
    """
    code = run.record["code"]
    with tempfile.TemporaryDirectory(prefix="lab-frozen-") as temporary:
        directory = Path(temporary).resolve()
        try:
            unpack_library(code, run.dir, directory)
        except LabError as error:
            print(f"lab: continues with {name_of_this_library()}: {error}", file=sys.stderr)
            return run_lab(words, {env.LIBRARY: str(LIBRARY.parent)})
        print(
            f"lab: continues with {library_name(code)}, as the run began; "
            f"installed is {name_of_this_library()}",
            file=sys.stderr,
        )
        earlier_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        paths = [str(directory), str(project.source.parent), *filter(None, earlier_path)]
        variables = {env.LIBRARY: str(directory), "PYTHONPATH": os.pathsep.join(paths)}
        return run_lab(words, variables)


def run_lab(words: list[str], variables: dict[str, str]) -> int:
    """Runs `lab WORDS` with further variables; its exit code, 128 + the number of a signal."""
    command = [sys.executable, "-m", "labrig", *words]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONSAFEPATH": "1"} | variables)
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
