"""The workers of a sweep as processes of this machine: one per free GPU, or a share of the cores."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from .. import env
from ..cluster.schedulers.gpu_lease import Wish, lease_directory, lease_gpus
from ..cluster.submit.arrays import arrays_of
from ..cluster.submit.budget import check_budget
from ..cluster.submit.command import print_submitted
from ..cluster.submit.plan import Plan, plan_of
from ..cluster.submit.send import send_arrays
from ..cluster.submit.submit import SubmitOptions, check_points, pack_code, record_runs, unpacked
from ..cluster.watch.job_states import job_state_of
from ..config.compose import Composition, compose
from ..errors import Refused
from ..machine.gpu import gpus
from ..machine.resources import cores, own_cores
from ..machine.text_formats import counted
from ..project import Project
from ..record.files.schema import Code
from ..record.freeze.bundle import STORE
from ..record.freeze.frozen import unpack_code
from ..record.read.status import status_of
from ..record.reproduce.command import link_shared
from .points import Ended, Points, SweepProgress, format_best

CORES_PER_WORKER = 4  # where there is no GPU
POLL_S = 0.5
LAST_LINES = 4  # of the log of a worker that failed


@dataclass(frozen=True)
class Share:
    """What one worker may use of this machine.

    Attributes:
        cores: their numbers.
        gpu: in the order of nvidia-smi; None without one.
    """

    cores: set[int]
    gpu: int | None = None


@dataclass(frozen=True)
class Workplace:
    """Where workers run: in the frozen code, with these variables added to the environment."""

    directory: Path
    variables: dict[str, str]


def search_here(project: Project, points: Points, base: Composition, code: Code) -> int:
    """Searches with processes of this machine until no point is left; Ctrl-C saves and stops.

    Returns:
        0 when all points are done, 1 when some are left, 2 where none can be, 130 when it was stopped.
    """
    sweep = points.sweep
    shares = shares_of(base, sweep.id, points.n_open())
    workers = counted(len(shares), "worker")
    print(f"{workers}; the output: {os.path.relpath(sweep.workers)}/", flush=True)
    command = [sys.executable, "-m", "labrig", "sweep", "worker", str(sweep.dir)]
    with workplace_of(project, points, code) as workplace:
        codes = run_workers(command, shares, workplace, points)
    with points.lock:
        points.settle_all()
    print("best:", *format_best(points, 1))
    print(f"look: lab sweep show {sweep.id}")
    if points.n_open() == 0:
        return 0
    left = counted(points.n_open(), "point")
    if Ended.MISTAKE in codes:
        print(f"{left} left; each would end like the first, for the reason above")
        return Ended.MISTAKE
    print(f"{left} left; the same command continues")
    return 130 if Ended.STOPPED in codes else 1


def shares_of(base: Composition, sweep_id: str, n_points: int) -> list[Share]:
    """What each worker may use: a GPU for each, where there are some, and an equal share of cores."""
    wanted = base.config.sweep.workers
    uses_gpus = base.config.trainer.accelerator != "cpu"
    leased = lease_free_gpus(sweep_id, min(wanted or n_points, n_points)) if uses_gpus else []
    n_default = len(leased) or max(1, cores() // CORES_PER_WORKER)
    n_workers = min(wanted or n_default, n_points)
    numbers = sorted(own_cores())
    shares = []
    for n in range(n_workers):
        # With more workers than cores or GPUs, several get the same one.
        share = set(numbers[n::n_workers]) or {numbers[n % len(numbers)]}
        shares.append(Share(share, leased[n % len(leased)] if leased else None))
    return shares


def lease_free_gpus(sweep_id: str, n_most: int) -> list[int]:
    """The free GPUs, leased until this process ends; empty on a machine without one."""
    if not gpus():
        return []
    directory = lease_directory()
    leased: list[int] = []
    while len(leased) < n_most:
        more = lease_gpus(directory, Wish(1), sweep_id, gpus())
        if not more:
            break
        leased.append(more[0].index)
    if not leased:
        raise Refused(
            "no GPU of this machine is free: lab top. Wait, or search without one: trainer=cpu"
        )
    return leased


@contextmanager
def workplace_of(project: Project, points: Points, code: Code) -> Iterator[Workplace]:
    """The frozen code, unpacked, so that an edit of the project changes no later point.

    Where git cannot record the code, workers run it as it is.
    """
    if not code.get("commit"):
        yield Workplace(project.root, {})
        return
    with tempfile.TemporaryDirectory(prefix="lab-sweep-") as temporary:
        frozen = Path(temporary).resolve() / "code"
        unpack_code(code, project.root, points.sweep.runs / STORE, frozen)
        directory = frozen / code["prefix"]
        link_shared(project, directory)
        outside = env.paths_outside(project.root)
        variables = env.frozen_environment(
            frozen, code["prefix"], project.root, code["commit"], outside
        )
        yield Workplace(directory, variables)


def run_workers(
    command: list[str], shares: list[Share], workplace: Workplace, points: Points
) -> list[int]:
    """Runs a worker for each share, and prints each point that ends; returns their exit codes."""
    progress = SweepProgress(points)
    with ExitStack() as logs:
        workers = []
        for n, share in enumerate(shares, start=1):
            log = logs.enter_context(open(points.sweep.workers / f"{n}.log", "ab"))
            workers.append(start_worker(command, share, workplace, log))
        while any(worker.poll() is None for worker in workers):
            try:
                time.sleep(POLL_S)
                progress.print_news()
            except KeyboardInterrupt:
                print("lab: the workers save and stop", file=sys.stderr)
    progress.print_news()
    for n, worker in enumerate(workers, start=1):
        print_failure(points.sweep.workers / f"{n}.log", worker.returncode)
    return [worker.returncode for worker in workers]


def start_worker(
    command: list[str], share: Share, workplace: Workplace, log: IO[bytes]
) -> subprocess.Popen:
    variables = os.environ | workplace.variables | {"PYTHONUNBUFFERED": "1"}
    if share.gpu is not None:
        variables |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(share.gpu)}
    worker = subprocess.Popen(
        command,
        cwd=workplace.directory,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(worker.pid, share.cores)
    return worker


def print_failure(log: Path, code: int) -> None:
    """The last lines of the log of a worker that failed or was killed."""
    if code in (Ended.DONE, Ended.STOPPED):
        return
    end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    print(f"a worker {end}; the end of {os.path.relpath(log)}:", file=sys.stderr)
    print("".join(f"  {line}\n" for line in lines), end="", file=sys.stderr)


# The workers of a sweep as one job array.


def search_in_jobs(
    points: Points, plan: Plan, base: Composition, code: Code, yes: bool = False
) -> int:
    """Sends a job array of workers, of which job.throttle run at a time; returns at once.

    Workers of an earlier call that still run or wait count too.

    Args:
        yes: send them though they may use more than the budget.
    """
    sweep = points.sweep
    n_alive = n_living_workers(points)
    n_per_job = plan.request.n_tasks
    n_wanted = min(base.config.sweep.workers or plan.throttle * n_per_job, points.n_open())
    n_jobs = -(-(n_wanted - n_alive * n_per_job) // n_per_job)
    if n_jobs <= 0:
        print(f"{counted(n_alive, 'worker')} already running or waiting: lab queue")
        return 0
    # python3 is the one of the job, which `lab rank` puts first on the path.
    command = ["python3", "-m", "labrig", "sweep", "worker", str(sweep.dir)]
    job = ["job.name=sweep"] if plan.request.name == "sweep" else []
    worker = compose(plan.project, [*plan.points[0].overrides, *job])
    plan = plan_of(plan.project, [worker] * n_jobs, command)
    check_budget(plan, None, yes)
    arrays = arrays_of(plan)
    with unpacked(plan, code, plan.runs / STORE) as frozen:
        check_points(replace(plan, points=[base], trains=True), code, frozen, batch=True)
        archive = pack_code(plan, code, frozen)
    options = SubmitOptions(why=f"worker of sweep {sweep.id}", allow=sweep.record["allow"])
    begun_unix_s = round(time.time(), 3)
    runs = record_runs(plan, {worker.trial: code}, options, arrays, begun_unix_s)
    for run in runs:
        (sweep.workers / run.id).touch()
    submitted = send_arrays(plan, runs, archive, arrays, begun_unix_s)
    print_submitted(plan, submitted)
    print(f"how far it is: lab sweep show {sweep.id}")
    return 0


def n_living_workers(points: Points) -> int:
    """How many jobs of earlier calls run, or wait for their turn."""
    job_state = job_state_of()
    states = [
        status_of(run_dir, job_state)
        for file in points.sweep.workers.iterdir()
        if (run_dir := points.sweep.runs / "command" / file.name).is_dir()
    ]
    return sum(1 for state in states if state in ("queued", "running"))
