"""`lab top`: who uses which GPU of this machine, or of the nodes of a running job."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ... import env
from ...command_parser import CommandParser
from ...errors import Failed, LabError
from ...machine.gpu import Gpu, gpus, processes_on
from ...machine.text_formats import counted, format_clock, printable
from ...machine.text_table import TextColumn, text_table
from ...project import Project
from ...record.files.schema import Job
from ...record.read.attempt_files import last_attempt
from ...record.read.find import find_run
from ...record.read.run import Run, run_roots
from ..schedulers import scheduler_of
from ..schedulers.command import clean_environment, run_scheduler_command
from ..schedulers.gpu_lease import DEFAULT_DIRECTORY, is_locked, numbers, read_lease, user_name
from ..schedulers.scheduler import fill_in
from .job_states import JobStates, require_job

# Widths in characters by title
COLUMNS = {"GPU": 3, "use": 4, "memory of MB": 14, "W": 4, "who": 10, "run": 22, "for": 9}
WORDS = ("who", "run")  # on the left of their width


@dataclass(frozen=True)
class Use:
    """One process on a GPU, or a lease whose job does not compute yet; None: not known."""

    who: str
    run_id: str | None
    memory_MB: int | None
    seconds: float | None


def top_here(watch: bool) -> int:
    """The GPUs of this machine; 1 where there is none."""
    while True:
        all_gpus = gpus()
        if not all_gpus:
            print(
                "no NVIDIA GPU here. The node of a job: lab top RUN, typed where it was submitted"
            )
            return 1
        print("\n".join(format_gpus(all_gpus)), flush=True)
        if not watch:
            return 0
        time.sleep(2)
        print()


def format_gpus(all_gpus: list[Gpu]) -> list[str]:
    """A line for each GPU and each further process on it, then how many jobs wait."""
    rows = []
    for gpu in all_gpus:
        uses = uses_of(gpu)
        rows.append([*cells_of_gpu(gpu), *cells_of_use(uses[0] if uses else None)])
        for use in uses[1:]:
            memory = "" if use.memory_MB is None else str(use.memory_MB)
            rows.append(["", "", memory, "", *cells_of_use(use)])
    columns = [
        TextColumn(title, cells, width, on_right=title not in WORDS)
        for (title, width), cells in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True)
    ]
    lines = text_table(columns)
    n = n_waiting()
    if n:
        lines.append(f"{counted(n, 'job')} in line for GPUs: lab queue")
    return lines


def uses_of(gpu: Gpu) -> list[Use]:
    """The processes on a GPU, the largest first; else who has leased it."""
    lease = read_lease(gpu)
    processes = sorted(processes_on(gpu).items(), key=lambda item: -(item[1] or 0))
    uses = []
    for pid, memory_MB in processes:
        who = user_of(pid)
        run_id = run_of(pid)
        if run_id is None and lease and lease.user == who:
            run_id = lease.run_id
        uses.append(Use(who, run_id, memory_MB, age_s(pid)))
    if lease and not any(use.run_id == lease.run_id for use in uses):
        uses.append(Use(lease.user, lease.run_id, None, time.time() - lease.since_unix_s))
    return uses


def user_of(pid: int) -> str:
    """Who started a process; "?" when it belongs to another container, or has just ended."""
    try:
        return user_name(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "?"


def run_of(pid: int) -> str | None:
    """The run that a process of one's own works on."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name.decode(errors="replace") == env.RUN_DIR:
                return Path(os.fsdecode(value)).name
    return None


def age_s(pid: int) -> float | None:
    """How long a process has run."""
    with suppress(OSError, ValueError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        started_ticks = int(stat.rpartition(")")[2].split()[19])
        up_s = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        return up_s - started_ticks / os.sysconf("SC_CLK_TCK")
    return None


def n_waiting() -> int:
    """How many jobs of all users wait in line for GPUs."""
    line = Path(os.environ.get(env.GPU_LEASES, DEFAULT_DIRECTORY)) / "line"
    try:
        return sum(is_locked(line / f"{number:012}") for number in numbers(line))
    except OSError:
        return 0


def cells_of_gpu(gpu: Gpu) -> list[str]:
    share = "-" if gpu.utilization_percent is None else f"{gpu.utilization_percent} %"
    power_W = "-" if gpu.power_W is None else str(gpu.power_W)
    return [str(gpu.index), share, f"{gpu.used_MB} / {gpu.memory_MB}", power_W]


def cells_of_use(use: Use | None) -> list[str]:
    """Who uses a GPU, for which run, and for how long."""
    if use is None:
        return ["free", "", ""]
    age = "" if use.seconds is None else format_clock(int(use.seconds))
    who = use.who[: COLUMNS["who"]]
    run_id = (use.run_id or "")[: COLUMNS["run"]]
    return [printable(who), printable(run_id), age]


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
