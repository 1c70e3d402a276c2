"""Runs the commands of schedulers, in an environment without the variables of the job that this process stands in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ... import env
from ...errors import Failed
from ...machine.caches import cache_variables
from ..schedulers import all_schedulers

# A new job that inherited these, or those of a scheduler, would land in the wrong place, or run slowly.
OF_A_JOB = re.compile(
    "|".join(
        [
            r"PMI|PMIX|OMPI_|PALS_",  # MPI
            r"TORCHELASTIC_",
            r"(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK)$",
            r"(MASTER_ADDR|MASTER_PORT)$",
            r"(CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES)$",
            r"(OMP|MKL)_NUM_THREADS$",
            r"PYTHON(?!NOUSERSITE|DONTWRITE)",
            r"LAB_(?!SITE_PATH|GPU_LEASES|CACHES)",
        ]
    )
)


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


def current_job_id() -> str | None:
    """The id of the job that this process runs in; None outside a job."""
    for name in env.JOB_IDS:
        if name in os.environ:
            return os.environ[name]
    return None


def clean_environment() -> dict[str, str]:
    """The environment without the variables of the job or run that this process stands in."""
    schedulers = all_schedulers()
    patterns = "|".join(scheduler.variables for scheduler in schedulers if scheduler.variables)
    of_a_scheduler = re.compile(patterns)
    kept = {name for scheduler in schedulers for name in scheduler.kept_variables}
    environment = {}
    for name, value in os.environ.items():
        of_a_job = OF_A_JOB.match(name) or of_a_scheduler.match(name)
        if name in kept or not of_a_job:
            environment[name] = value
    return environment


def command_environment(run_dir: Path) -> dict[str, str]:
    """The environment of a command: that of the job, with the commands of this Python first.

    Python finds modules next to a script, as in a shell; what is frozen comes before the installed.
    """
    environment = dict(os.environ)
    environment.pop(env.ATTEMPT, None)
    environment.pop("PYTHONSAFEPATH", None)  # which the job script sets, for the ranks
    environment[env.RUN_DIR] = str(run_dir)
    environment[env.COMMAND_RUN_DIR] = str(run_dir)
    python_dir = Path(sys.executable).parent
    environment["PATH"] = f"{python_dir}{os.pathsep}{environment.get('PATH', '')}"
    return environment | cache_variables(os.environ.get(env.CACHES))
