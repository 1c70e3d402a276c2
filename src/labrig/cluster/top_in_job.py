"""`lab top RUN`: who uses which GPU on the nodes of a running job, asked inside the job."""

from __future__ import annotations

import subprocess
from typing import Any

from ..errors import Failed, LabError
from ..project import Project
from ..record.attempt_files import last_attempt
from ..record.run import Run
from .job_states import JobStates, require_job
from .job_variables import clean_environment
from .scheduler_command import run_scheduler_command
from .schedulers import scheduler_of
from .schedulers.scheduler import fill_in
from .top import top_here

PATIENCE_S = 60


def top_in_job(project: Project, run: Run, watch: bool) -> int:
    """Runs `lab top` as a step of the job, once on each of its nodes.

    Raises:
        LabError: the job does not run, or its scheduler starts nothing in a running job.
        Failed: the nodes do not answer.
    """
    job = require_job(run)
    state = JobStates().of(run.record)
    if state is None or state.state != "running":
        word = "over" if state is None else f"{state.state}, {state.reason}".removesuffix(", ")
        raise LabError(f"{run.id} uses no GPU now: its job is {word}. See: lab runs show {run.id}")
    if job["scheduler"] == "local":
        return top_here(watch)
    command = step_command(job, host_of(run), watch)
    try:
        done = subprocess.run(
            command,
            cwd=project.root,
            env=clean_environment(),
            timeout=None if watch else PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(
            f"the nodes of job {job['id']} do not answer within {PATIENCE_S} s. "
            f"Does the job still run? lab queue"
        ) from error
    return done.returncode


def step_command(job: dict[str, Any], host: str, watch: bool) -> list[str]:
    """The command that runs `lab top` on every node of a job, with the Python of its script.

    Raises:
        LabError: the scheduler has none.
    """
    scheduler = scheduler_of(job["scheduler"])
    if not scheduler.in_job_command:
        raise LabError(
            f"{job['scheduler']} starts nothing in a running job."
            f" Log in to its node and type it there: ssh {host}, then lab top"
        )
    question = fill_in(scheduler.number_command, id=job["id"])
    number = run_scheduler_command(*question).strip()
    start = fill_in(scheduler.in_job_command, number=number, nodes=str(job["nodes"]))
    if job["nodes"] > 1:
        start.append("--label")
    top = ["python", "-m", "labrig", "top", *(["--watch"] if watch else [])]
    return [*start, "bash", job["script"], *top]


def host_of(run: Run) -> str:
    attempt = last_attempt(run.dir)
    return attempt.start.get("host", "NODE") if attempt else "NODE"
