# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Runs the commands of the setup, in the project."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

PACKAGE = Path(__file__).resolve().parents[2]
ROOT = PACKAGE.parents[1]


def run(*command, fatal: object = True, **variables):
    """Runs a command in the project; returns whether it succeeded.

    One that fails stops the setup, unless it is not `fatal`. A variable that is "" is removed.
    """
    words = [str(word) for word in command]
    environ = dict(os.environ)
    environ.update(variables)
    environ = {name: value for name, value in environ.items() if value}
    failed = subprocess.call(words, cwd=str(ROOT), env=environ)
    if failed and fatal:
        command_line = " ".join(map(shlex.quote, words))
        target = " ".join(sys.argv[1:]) or "setup"
        stop(
            f"this command failed, its output is above:\n  {command_line}\n"
            f"Fix the cause, then again: make {target}"
        )
    return not failed


def output_of(*command):
    """What a command of the setup prints; "" when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def succeeds(*command):
    null = subprocess.DEVNULL
    return subprocess.call(command, cwd=str(ROOT), stdout=null, stderr=null) == 0


def say(message):
    print(f"setup: {message}", flush=True)


def stop(message) -> NoReturn:
    sys.exit(f"setup: {message}")
