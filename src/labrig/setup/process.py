"""Runs the commands of the setup, in the project."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from ..project import this_project
from ..record.read.size import bytes_below, format_bytes

QUIET_S = 20.0  # between two lines about a long command


def run(*command: str | Path, fatal: bool = True, variables: dict[str, str] | None = None) -> bool:
    """Runs a command in the project; returns whether it succeeded.

    One that fails stops the setup, unless it is not `fatal`. A variable that is "" is removed.
    """
    words = [str(word) for word in command]
    environ = {name: value for name, value in (os.environ | (variables or {})).items() if value}
    with subprocess.Popen(words, cwd=this_project().root, env=environ) as process:
        failed = wait_for(process)
    if failed and fatal:
        stop(
            f"this command failed, its output is above:\n  {shlex.join(words)}\n"
            "Fix the cause, then type the same make again"
        )
    return not failed


def wait_for(process: subprocess.Popen) -> int:
    """The exit code of a command. Where it shows no bar, a line now and then says how far it is."""
    began_s = time.monotonic()
    while True:
        try:
            return process.wait(None if sys.stdout.isatty() else QUIET_S)
        except subprocess.TimeoutExpired:
            size = format_bytes(bytes_below(Path(sys.prefix)))
            say(f"{time.monotonic() - began_s:.0f} s; the environment has {size}")


def succeeds(*command: str) -> bool:
    null = subprocess.DEVNULL
    return subprocess.call(command, cwd=this_project().root, stdout=null, stderr=null) == 0


def base_python() -> str:
    """The Python that bootstrap.py was started with; else the one below this environment."""
    started_with = os.environ.get("LAB_PYTHON")
    return started_with or sys._base_executable  # type: ignore[attr-defined]


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


def stop(message: str) -> NoReturn:
    sys.exit(f"setup: {message}")
