"""`lab top RUN`: who uses which GPU on the nodes of a running job, asked inside the job."""

from __future__ import annotations

import subprocess

from ...command_parser import CommandParser
from ...errors import Failed, LabError
from ...project import Project
from ...record.files.schema import Job
from ...record.read.attempt_files import last_attempt
from ...record.read.find import find_run
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ..schedulers import scheduler_of
from ..schedulers.command import run_scheduler_command
from ..schedulers.job_variables import clean_environment
from ..schedulers.scheduler import fill_in
from .job_states import JobStates, require_job
from .top import top_here

PATIENCE_S = 60


def top_in_job(project: Project, run: Run, watch: bool) -> int:
    """Runs `lab top` as a step of the job, once on each of its nodes."""
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


def step_command(job: Job, host: str, watch: bool) -> list[str]:
    """The command that runs `lab top` on every node of a job, with the Python of its script."""
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


# `lab top`: who uses which GPU, of this machine or of the nodes of a job.


def top_command(project: Project, args: list[str]) -> int:
    """`lab top`; 1 where there is no GPU."""
    parser = CommandParser(
        prog="lab top",
        description="Who uses which GPU of this machine: run, share of the time in which a kernel "
        "ran, memory, power, age. With RUN: of the nodes on which its job runs.",
    )
    parser.add_argument("run", nargs="?", help="an id or its beginning, a tag, @last")
    parser.add_argument("--watch", action="store_true", help="again every 2 seconds")
    options = parser.parse_args(args)
    if options.run:
        return top_in_job(project, find_run(run_roots(project), options.run), options.watch)
    return top_here(options.watch)
