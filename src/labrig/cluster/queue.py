"""`lab queue`: the jobs of this project that are queued or running."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from ..machine.terminal import printable
from ..project import Project, read_yaml
from ..record.atomic import read_json
from ..record.index import run_directories
from ..record.process import user
from ..record.roots import run_roots
from ..record.schema import RunRecord
from ..record.status import status_of
from .job_states import JobStates
from .stopped import format_stopped
from .waits import format_duration, format_wait, typical_waits

MIN_POLL_S = 2.0  # no scheduler is asked more often
DEFAULT_POLL_S = 30.0


@dataclass(frozen=True)
class Job:
    """A run whose job is queued or running.

    Args:
        state: "queued" or "running".
        reason: why it waits, or why nothing more is known; "" else.
        seconds: for how long it has been in this state.
        gpu_hours: used so far.
    """

    run_id: str
    trial: str
    job_id: str
    site: str
    state: str
    reason: str
    seconds: int
    gpu_hours: float


def queue(project: Project | None = None) -> list[Job]:
    """Your runs of this project that are queued or running, newest first."""
    return _jobs(project or Project.of_notebook(), JobStates())


def _jobs(project: Project, states: JobStates) -> list[Job]:
    jobs = [_job_of(Path(directory), states) for directory in run_directories(*run_roots(project))]
    waiting_or_running = [job for job in jobs if job is not None]
    return sorted(waiting_or_running, key=lambda job: job.run_id, reverse=True)


def _job_of(run_dir: Path, states: JobStates) -> Job | None:
    """The job of a run; None where it is over, there is none, or somebody else submitted it."""
    has_ended = (run_dir / "summary.json").exists()
    wants_requeue = (run_dir / "requeue").exists()
    if has_ended and not wants_requeue:
        return None
    record_file = run_dir / "run.json"
    record: RunRecord = read_json(record_file) or {}
    job_state = states.of(record)
    if job_state is None or record["who"] != user():
        return None
    state = job_state.state
    if state == "unknown":
        state = status_of(run_dir, None, record)
    if state not in ("queued", "running"):
        return None
    job = record["job"]
    submitted_unix_s = job.get("submitted_unix_s") or record_file.stat().st_mtime
    queued_s = max(0.0, time.time() - submitted_unix_s)
    n_gpus = job.get("nodes", 0) * job.get("gpus", 0)
    return Job(
        run_id=record["run_id"],
        trial=record["trial"],
        job_id=job_state.job_id or job.get("id", "-"),
        site=job["site"],
        state=state,
        reason=job_state.reason,
        seconds=job_state.elapsed_s if state == "running" else round(queued_s),
        gpu_hours=n_gpus * job_state.elapsed_s / 3600,
    )


def watches(args: list[str]) -> bool:
    """Whether --watch was typed after `lab queue`."""
    parser = argparse.ArgumentParser(
        prog="lab queue",
        description="Your jobs: run, state, for how long, GPU-hours. Then those of the last day"
        " that something else than their program ended.",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="repeat until no job is left, as often as the site allows",
    )
    return parser.parse_args(args).watch


def queue_command(project: Project, args: list[str]) -> None:
    watch = watches(args)
    while True:
        jobs = print_queue(project)
        if not watch or not jobs:
            return
        time.sleep(max(poll_interval_s(project, job.site) for job in jobs))
        print()


def print_queue(project: Project) -> list[Job]:
    """Prints the jobs, those that were stopped, and typical waits; returns the jobs."""
    states = JobStates()
    jobs = _jobs(project, states)
    print("\n".join([format_queue(jobs), *format_stopped(project, states)]), flush=True)
    if jobs:
        print_waits(project)
    return jobs


def print_waits(project: Project) -> None:
    """Prints the typical wait in each queue, from your own runs."""
    for wait in typical_waits(project):
        print(printable(f"typical wait: {format_wait(wait)}"), flush=True)


def poll_interval_s(project: Project, site: str) -> float:
    """Seconds between two questions to the scheduler of a site."""
    interval_s = read_yaml(project.site_file(site)).get("poll_s") or DEFAULT_POLL_S
    return max(MIN_POLL_S, float(interval_s))


def format_queue(jobs: list[Job]) -> str:
    """A line for each job, and below it the reason where there is one."""
    if not jobs:
        return "no jobs"
    lines = [f"{'run':<22}  {'trial':<14}  {'job':<13}  {'state':<7}  {'for':>9}  GPU-h"]
    for job in jobs:
        lines.append(
            f"{job.run_id:<22}  {job.trial:<14.14}  {job.job_id:<13}  {job.state:<7}"
            f"  {format_duration(job.seconds):>9}  {job.gpu_hours:>5.1f}"
        )
        if job.reason:
            lines.append(f"    {job.reason}")
    return "\n".join(map(printable, lines))
