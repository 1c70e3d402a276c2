# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab queue`, `lab logs`, `lab cancel`, `lab shell`: everyday work with jobs, by run instead of by job id."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError, Refused
from ..project import Project, read_yaml
from ..record.files import read_json
from ..record.rows import run_directories
from ..record.run import find
from .local import scheduler_of
from .scheduler import JobState
from .status import live_jobs


@dataclass(frozen=True)
class Row:
    """A run whose job the scheduler knows."""

    run_id: str
    trial: str
    job_id: str
    state: JobState
    gpus: int

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.state.elapsed_s / 3600


def queue(project: Project | None = None) -> list[Row]:
    """Runs of this project that are queued or running, newest first."""
    project = project or Project.find()
    states = live_jobs()
    rows = []
    for directory in run_directories(project.paths["runs"]):
        record = read_json(Path(directory) / "run.json") or {}
        job = record.get("job") or {}
        if "id" in job and (found := (states(job["scheduler"]) or {}).get(job["id"])):
            rows.append(Row(record["run_id"], record["trial"], job["id"], found, job["nodes"] * job["gpus"]))
    return sorted(rows, key=lambda row: row.run_id, reverse=True)


def queue_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab queue", description="Your jobs: run, trial, state, why it waits, age, GPU-hours so far."
    )
    parser.add_argument(
        "--watch", action="store_true", help="again and again, no faster than the site allows, until none is left"
    )
    options = parser.parse_args(args)
    while True:
        rows = queue(project)
        print(table(rows), flush=True)
        if not options.watch or not rows:
            return
        time.sleep(poll_s(project, rows))


def poll_s(project: Project, rows: list[Row]) -> float:
    """Seconds between two questions to the schedulers: the slowest that a site of these runs allows."""
    names = {(find(project.paths["runs"], row.run_id).record["job"] or {})["site"] for row in rows}
    return max(max(2.0, float(read_yaml(project.site_file(name)).get("poll_s") or 30)) for name in names)


def table(rows: list[Row]) -> str:
    if not rows:
        return "no jobs"
    cells = [("run", "trial", "job", "state", "age", "GPU-h", "")]
    for row in rows:
        age = f"{row.state.elapsed_s // 3600}:{row.state.elapsed_s // 60 % 60:02d}:{row.state.elapsed_s % 60:02d}"
        cells.append(
            (row.run_id, row.trial, row.job_id, row.state.state, age, f"{row.gpu_hours:.1f}", row.state.reason)
        )
    widths = [max(len(line[column]) for line in cells) for column in range(7)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def logs_command(project: Project, args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="lab logs", description="What a run's job printed.")
    parser.add_argument("run", help="an id or its beginning, a tag, @last")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing until the run's job has ended")
    parser.add_argument("--rank", type=int, metavar="N", help="only what rank N printed (and what the job script says)")
    options = parser.parse_args(args)
    run = find(project.paths["runs"], options.run)
    log = run.dir / "job.log"
    job = run.record.get("job") or {}
    states = live_jobs()
    if not log.exists() and not (options.follow and "id" in job):
        told = states(job["scheduler"]) if "id" in job else None
        known = (told or {}).get(job.get("id", ""))
        why = (
            f"the job is {known.state}{f' ({known.reason})' if known and known.reason else ''}"
            if known
            else "no job wrote one"
        )
        raise LabError(f"{run.id} has no log yet: {why}.")
    position, asked_s, living = 0, 0.0, True
    while True:
        if log.exists():
            with open(log, errors="replace") as file:
                file.seek(position)
                text = file.read()
                position = file.tell()
            sys.stdout.writelines(line for line in text.splitlines(keepends=True) if of_rank(line, options.rank))
            sys.stdout.flush()
        if not options.follow or not living:
            return 0
        if time.monotonic() - asked_s > 30:
            states, asked_s = live_jobs(), time.monotonic()
            living = "id" in job and job["id"] in (states(job["scheduler"]) or {job["id"]: None})
        time.sleep(0.5)


def of_rank(line: str, rank: int | None) -> bool:
    """srun labels lines "3: …"; a line without a label is the job script's."""
    label = re.match(r"\s*(\d+): ", line)
    return rank is None or label is None or int(label[1]) == rank


def cancel_command(project: Project, args: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="lab cancel", description="Ends the job of a run, or takes it out of the queue."
    )
    parser.add_argument("run", nargs="+", help="an id or its beginning, a tag, @last")
    options = parser.parse_args(args)
    for word in options.run:
        run = find(project.paths["runs"], word)
        job = run.record.get("job") or {}
        if "id" not in job:
            raise LabError(f"{run.id} has no job; it was trained in a terminal (Ctrl-C there ends it).")
        known = live_jobs()(job["scheduler"])
        if known is not None and job["id"] not in known:
            raise LabError(f"{run.id}: job {job['id']} is over already. lab runs show {run.id}")
        (run.dir / "cancelled").touch()  # so that it saves but does not ask to go on
        scheduler_of(job["scheduler"]).cancel(job["id"])
        print(f"cancelled job {job['id']} of run {run.id}")


def shell_command(project: Project, args: list[str]) -> int:
    from ..config.overrides import SettingsParser
    from .submit import prepare

    parser = SettingsParser("lab shell", "An interactive shell on a node of the site, with job.* as for lab submit.")
    parser.add_argument("--dry-run", action="store_true", help="print the command only")
    chosen = parser.read(args)
    plan = prepare(project, chosen.overrides, command=["bash"])
    command = scheduler_of(plan.site["scheduler"]).shell(plan.request)
    print(shlex.join(command), flush=True)
    if chosen.dry_run:
        return 0
    if any(name in os.environ for name in ("SLURM_JOB_ID", "PBS_JOBID", "PJM_JOBID")):
        raise Refused("this shell is inside a job already; leave it first, or use the nodes you have.")
    return subprocess.run(command).returncode
