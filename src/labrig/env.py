"""Every LAB_* variable with its meaning, and the environment in which frozen code is started.

Job scripts set the same variables (cluster/job/*.sh), so a new one is written here and there.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

# Set by the user
SITE_PATH = "LAB_SITE_PATH"  # further directories with site profiles, separated by ":"
GPU_LEASES = "LAB_GPU_LEASES"  # directory in which all users of a machine lease its GPUs
# directory of all caches: that of paths.caches, for this process and its jobs
CACHES = "LAB_CACHES"
# where `make setup` makes the environment, in place of paths.environment
ENVIRONMENT = "LAB_ENVIRONMENT"
DEBUG = "LAB_DEBUG"  # 1: errors end the command with their traceback, and reach a debugger

# Which file a job takes its packages from
IMAGE = "LAB_IMAGE"  # image of a container, or packed environment
IMAGE_SHA256 = "LAB_IMAGE_SHA256"

# Which code runs, and for which project
# root of the project whose data and runs are used, when its frozen code runs
PROJECT = "LAB_PROJECT"
FROZEN = "LAB_FROZEN"  # directory with the frozen code that runs
LIBRARY = "LAB_LIBRARY"  # directory with the labrig of a run, with which that is resumed
SNAPSHOT_COMMIT = "LAB_SNAPSHOT_COMMIT"  # commit that this code was frozen as

# Which run this process works on
RUN_DIR = "LAB_RUN_DIR"  # directory of the run; also for the command of `lab submit -- COMMAND`
# number of its attempt, set by the process that began it for those it starts
ATTEMPT = "LAB_ATTEMPT"
NEXT_ATTEMPT = "LAB_NEXT_ATTEMPT"  # number of the attempt that the job script is about to begin
SEED = "LAB_SEED"  # the run's seed, for the script that it starts
# optimizer steps after which this attempt saves and ends, as the one of the run that it repeats did
STOP_STEP = "LAB_STOP_STEP"
CHECK = "LAB_CHECK"  # 1: the new run checks another one, so its numbers count nowhere

# the same, which a training that the command starts leaves as it is; a command that writes the file
# `requeue` there when it is asked to stop is started again
COMMAND_RUN_DIR = "LAB_COMMAND_RUN_DIR"
SWEEP_POINT = "LAB_SWEEP_POINT"  # DIRECTORY:NUMBER of the point of a sweep that is trained here
# What a command of notify=command reads
EVENT = "LAB_EVENT"  # finished, trained, failed, interrupted or idle
SUBJECT = "LAB_SUBJECT"  # one line: project, trial, run and event

# Which job this process belongs to
JOB = "LAB_JOB"  # the scheduler's id of the job, from our job script
JOB_STARTED = "LAB_JOB_STARTED"  # when the job script began, in seconds since 1970
INDEX = "LAB_INDEX"  # which run of a job array, counted from 0
CHUNK = "LAB_CHUNK"  # which chunk of a chain this job is, counted from 1; unset in the first
# 1 once the job script has loaded modules and environment
ENVIRONMENT_READY = "LAB_ENVIRONMENT_READY"

# The schedulers: each one's name in a profile, and its own variable with the id of the job. Its class
# lies in cluster/schedulers, in the file of that name.
SCHEDULERS = {
    "slurm": "SLURM_JOB_ID",
    "pbs": "PBS_JOBID",
    "lsf": "LSB_JOBID",
    "pjm": "PJM_JOBID",
    "gridengine": "JOB_ID",
    "local": JOB,
}
JOB_IDS = (JOB, *(name for name in SCHEDULERS.values() if name != JOB))  # the first that is set

# Where the library lies in frozen code, as if it was a submodule there; see record/freeze/library.py.
FROZEN_LIBRARY = "labrig-frozen"


def name_the_user() -> None:
    """Gives a user id without a name and a home, as in a container, both: libraries ask for them."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        os.environ.setdefault("USER", str(os.getuid()))
        os.environ.setdefault("HOME", "/nonexistent")


def paths_outside(project: Path) -> list[str]:
    """The directories of PYTHONPATH outside of `project`: they may hold modules of the user's."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [Path(entry).absolute() for entry in entries if entry]
    return [str(path) for path in paths if not path.resolve().is_relative_to(project.resolve())]


def frozen_environment(
    code_dir: Path, prefix: str, project: Path, commit: str, further_paths: Sequence[str] = ()
) -> dict[str, str]:
    """Variables with which Python imports the frozen code and library in `code_dir`, and neither as it is now.

    Args:
        code_dir: the unpacked snapshot.
        prefix: path of the project in its repository, "" or with a slash at its end.
        project: root of the project whose data and runs the code uses.
        commit: the snapshot's commit.
        further_paths: directories to import from, after the frozen code.
    """
    # Before the live tree of an editable install, and before the installed library.
    frozen = [str(code_dir / prefix / "src"), str(code_dir / FROZEN_LIBRARY)]
    return {
        "PYTHONPATH": os.pathsep.join([*frozen, *further_paths]),
        "PYTHONSAFEPATH": "1",  # and before the current directory
        FROZEN: str(code_dir),
        PROJECT: str(project),
        SNAPSHOT_COMMIT: commit,
    }
