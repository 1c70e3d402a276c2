"""Runs the commands of schedulers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ...errors import Failed
from .job_variables import clean_environment


class Unanswered(Failed):
    """The scheduler did not say whether it did what it was asked: it may have, or do it later."""


def run_scheduler_command(
    *command: str, cwd: Path | None = None, script: Path | None = None, timeout_s: float = 60
) -> str:
    """What a scheduler's command prints.

    Args:
        cwd: a job that the command queues works there, so it must exist longer than the job.
        script: what the command reads as its standard input.
        timeout_s: how long the command may take.

    Raises:
        Failed: it is not installed here, or failed; with its own words.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=clean_environment(),
            input=script.read_text(encoding="utf-8") if script else "",
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        raise Failed(
            f"{command[0]} is not installed here. Is this a login node? To find out: lab doctor"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Unanswered(
            f"{' '.join(command)} did not answer within {timeout_s:.0f} s; is the scheduler down?"
        ) from error
    if done.returncode:
        kind = Unanswered if done.returncode < 0 else Failed
        raise kind(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def answer_of(*command: str) -> str:
    """What a command answers, or why it does not."""
    try:
        return run_scheduler_command(*command, timeout_s=20)
    except Failed as error:
        return str(error)
