# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Jobs of runs: their states, `lab queue`, `lab logs`, `lab cancel`, `lab shell`."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import Failed, LabError, Refused
from ..project import Project, read_yaml
from ..record.atomic import read_json
from ..record.find import find_run
from ..record.index import run_directories
from ..record.process import user
from ..record.run import Run
from ..record.status import alive, status_of
from .local import scheduler_of
from .scheduler import JobState

JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "PJM_JOBID", "JOB_ID")  # set inside a job


def job_states() -> Callable[[dict], JobState | None]:
    """A function from a run's record to the state of its job: queued or running, "unknown" when it cannot be told here
    (and why), None when it is over. Each scheduler is asked at most once, and not before the first question."""

    @cache
    def jobs(scheduler: str) -> dict[str, JobState] | str:
        try:
            return scheduler_of(scheduler).jobs()
        except Failed as error:
            return str(error)

    def ask(record: dict) -> JobState | None:
        job = record.get("job")
        if not job:
            return None
        if "id" not in job:
            sends = job.get("sending") and alive(record["process"]) is not False
            return JobState("unknown", "being sent") if sends else None
        if record["who"] != user():
            return JobState("unknown", f"it is {record['who']}'s")
        if job["scheduler"] == "local" and record["host"] != platform.node():
            return JobState("unknown", f"it is on {record['host']}")
        known = jobs(job["scheduler"])
        return JobState("unknown", known) if isinstance(known, str) else known.get(job["id"])

    return ask


def job_state_of() -> Callable[[dict], str | None]:
    """For lab.record, which asks no scheduler itself: a record -> queued, running, unknown, or None when it is over."""
    ask = job_states()
    return lambda record: getattr(ask(record), "state", None)


@dataclass(frozen=True)
class Job:
    """A run whose job is queued or running, for `seconds`; `why` it waits, or cannot be told more of."""

    run_id: str
    trial: str
    job_id: str
    site: str
    state: str
    why: str
    seconds: int
    gpu_hours: float


def queue(project: Project | None = None) -> list[Job]:
    """Runs of this project that are queued or running, newest first."""
    project, ask, found = project or Project.find(), job_states(), []
    for directory in map(Path, run_directories(project.paths["runs"])):
        if (directory / "summary.json").exists() and not (directory / "requeue").exists():
            continue
        record = read_json(directory / "run.json") or {}
        told, job = ask(record), record.get("job")
        if told is None or record["who"] != user():
            continue
        state = told.state if told.state != "unknown" else status_of(directory, None, record)
        if state in ("queued", "running"):
            waited_s = time.time() - (directory / "run.json").stat().st_mtime
            seconds = told.elapsed_s if state == "running" else round(waited_s)
            gpu_hours = job.get("nodes", 0) * job.get("gpus", 0) * told.elapsed_s / 3600
            about = (
                record["run_id"],
                record["trial"],
                job.get("id", "-"),
                job["site"],
                state,
                told.reason,
            )
            found.append(Job(*about, seconds, gpu_hours))
    return sorted(found, key=lambda job: job.run_id, reverse=True)


def queue_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab queue", description="Your jobs: run, state, for how long, GPU-hours."
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again and again until none is left, as often as sites allow",
    )
    options = parser.parse_args(args)
    while True:
        jobs = queue(project)
        print(format_queue(jobs), flush=True)
        if not options.watch or not jobs:
            return
        time.sleep(max(poll_s(project, job.site) for job in jobs))
        print()


def poll_s(project: Project, site: str) -> float:
    """Seconds between two questions to the scheduler of a site; never less than 2."""
    return max(2.0, float(read_yaml(project.site_file(site)).get("poll_s") or 30))


def format_queue(jobs: list[Job]) -> str:
    """A line per job, and below it why it waits, where it does."""
    if not jobs:
        return "no jobs"
    lines = [f"{'run':<22}  {'trial':<14}  {'job':<13}  {'state':<7}  {'for':>9}  GPU-h"]
    for job in jobs:
        lasted = f"{job.seconds // 3600}:{job.seconds // 60 % 60:02}:{job.seconds % 60:02}"
        line = (
            f"{job.run_id:<22}  {job.trial:<14.14}  {job.job_id:<13}  {job.state:<7}  {lasted:>9}"
        )
        lines += [f"{line}  {job.gpu_hours:>5.1f}", *([f"    {job.why}"] if job.why else [])]
    return "\n".join(lines)


def logs_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab logs", description="What a run's job printed.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="keep printing until the run's job has ended"
    )
    parser.add_argument(
        "--rank",
        type=int,
        metavar="N",
        help="only what rank N printed (and what the job script says)",
    )
    options = parser.parse_args(args)
    run = find_run(project.paths["runs"], options.run)
    log, job = run.dir / "job.log", require_job(run)
    state = status_of(run.dir, job_state_of())
    if not log.exists() and not (options.follow and state in ("queued", "running")):
        raise LabError(f"{run.id} has no log yet; it is {state}. Why it waits: lab queue")
    position, rest, asked_s = 0, "", time.monotonic()
    while True:
        if options.follow and time.monotonic() - asked_s > poll_s(project, job["site"]):
            state, asked_s = status_of(run.dir, job_state_of()), time.monotonic()
        if log.exists():
            with open(log, errors="replace") as file:
                file.seek(position)
                *lines, rest = (rest + file.read()).split("\n")
                position = file.tell()
            print(
                *[f"{line}\n" for line in lines if of_rank(line, options.rank)],
                sep="",
                end="",
                flush=True,
            )
        if not options.follow or state not in ("queued", "running"):
            print(rest, end="")
            return 0
        time.sleep(0.5)


def of_rank(line: str, rank: int | None) -> bool:
    """srun labels lines "3: …"; a line without a label is the job script's."""
    label = re.match(r"\s*(\d+): ", line)
    return rank is None or label is None or int(label[1]) == rank


def require_job(run: Run) -> dict:
    """The job of a run's record.

    Raises:
        LabError: it has none.
    """
    if "id" in (run.record.get("job") or {}):
        return run.record["job"]
    raise LabError(
        f"{run.id} has no job: it was trained in a terminal, or never sent. lab runs show {run.id}"
    )


def cancel_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab cancel", description="Ends the jobs of runs; those that run save first."
    )
    parser.add_argument("run", nargs="+", help="an id or its beginning, a tag, @last")
    ask = job_states()
    for run in [find_run(project.paths["runs"], word) for word in parser.parse_args(args).run]:
        job = require_job(run)
        state = ask(run.record)
        if state is None:
            raise LabError(f"{run.id}: job {job['id']} is over already. lab runs show {run.id}")
        if state.state == "unknown":
            raise LabError(
                f"job {job['id']} of {run.id} cannot be cancelled from here: {state.reason}"
            )
        (run.dir / "cancelled").touch()  # so that it saves but does not ask to go on
        try:
            scheduler_of(job["scheduler"]).cancel(job["id"])
        except Failed:  # it runs on, and shall go on after a preemption as before
            (run.dir / "cancelled").unlink()
            raise
        print(f"cancelled job {job['id']} of run {run.id}")


def shell_command(project: Project, args: list[str]) -> int:
    from ..config.overrides import SettingsParser
    from .plan import plan_submission

    parser = SettingsParser(
        "lab shell", "An interactive shell on a node of the site, with job.* as for lab submit."
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command only")
    chosen = parser.read(args)
    plan = plan_submission(project, chosen.overrides, command=["bash"])
    command = scheduler_of(plan.site["scheduler"]).shell(plan.request)
    print(shlex.join(command), flush=True)
    if chosen.dry_run:
        return 0
    if any(name in os.environ for name in JOB_VARIABLES):
        raise Refused(
            "this shell is inside a job already; leave it first, or use the nodes you have."
        )
    return subprocess.run(command).returncode
