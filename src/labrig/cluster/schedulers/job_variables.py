"""The variables of the job that this process stands in, and the environment without them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ... import env
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
