"""What the job of a run uses of a node, by its cgroup, or its processes; noted in the attempt, printed at the end.

The first process of each node looks every half minute, so that a job which is killed has left what
was known. The job script calls `main` when the ranks are gone.
"""

from __future__ import annotations

import os
import re
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import env
from ...machine.gpu import gpus
from ...machine.ranks import Ranks
from ...machine.resources import own_cgroups, read_or_empty
from ...record.files.atomic import read_advisory, write_json
from ...record.read.attempt_files import read_attempts
from ...record.read.run import Run
from ...record.read.used import (
    ASKED,
    UsedOnNode,
    format_used,
    settings_that_would_do,
    used_on_nodes,
)
from .gpu_guard import visible_gpus

FIRST_LOOK_S = 5
EVERY_S = 30
SHORTEST_S = 4  # between two looks whose difference tells how busy the cores were
LAST_LOOK_S = 10  # that the last look may take
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The most that a cgroup held: version 2, version 1; of an older version 2 what it holds now.
PEAK_FILES = ("memory.peak", "memory.max_usage_in_bytes", "memory.current")


class NodeUse:
    """What the job of a run has used of this node; goes on from what was noted before."""

    def __init__(self, run: Run, n: int, node: int) -> None:
        self.file = run.dir / "attempts" / str(n) / f"used-{node}.json"
        self.variable = f"{env.RUN_DIR}={run.dir}"
        self.job_id = os.environ[env.JOB]
        job = run.record.get("job") or {}
        noted: UsedOnNode = read_advisory(self.file, UsedOnNode) or {}
        asked: Any = {key: job[key] for key in ASKED if key in job}
        self.used = UsedOnNode(asked=asked) | noted
        self.n_gpus = job.get("gpus") or 0
        self.busy_gpus: set[str] = set()  # those that worked at a look
        self.seconds_before = max(0.0, time.time() - float(os.environ[env.JOB_STARTED]))
        self.began_s = time.monotonic()  # a clock that nobody sets

    def look(self) -> None:
        """Brings all figures up to date; what was noted as the most stays."""
        before_s = self.used.get("seconds", 0.0)
        cpu_before_s = self.used.get("cpu_s", 0.0)
        now = use_of_job(self.job_id, self.variable)
        seconds = self.seconds_before + time.monotonic() - self.began_s
        cpu_s = max(now.cpu_s, cpu_before_s)
        busiest = self.used.get("busiest_cores", 0.0)
        if seconds - before_s >= SHORTEST_S:
            busiest = max(busiest, (cpu_s - cpu_before_s) / (seconds - before_s))
        self.used["seconds"] = round(seconds, 1)
        self.used["cpu_s"] = round(cpu_s, 2)
        self.used["busiest_cores"] = round(busiest, 2)
        self.used["memory_bytes"] = max(now.memory_bytes, self.used.get("memory_bytes", 0))

    def look_at_gpus(self) -> None:
        """Adds what the GPUs of the job do now."""
        seen = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), gpus())
        self.busy_gpus |= {gpu.uuid for gpu in seen if gpu.is_in_use}
        percents = [gpu.utilization_percent for gpu in seen]
        measured = [percent for percent in percents if percent is not None]
        n_before = self.used.get("n_gpu_looks", 0)
        self.used["n_gpus"] = len(seen)
        self.used["n_gpus_used"] = len(self.busy_gpus)
        self.used["n_gpu_looks"] = n_before + 1
        if measured:
            total = n_before * (self.used.get("gpu_percent") or 0.0) + statistics.fmean(measured)
            self.used["gpu_percent"] = total / (n_before + 1)

    def write(self) -> None:
        """Notes the figures, once the attempt is a part of the record."""
        if self.file.with_name("start.json").exists():
            write_json(self.file, self.used)


@contextmanager
def use_noted(run: Run, ranks: Ranks) -> Iterator[None]:
    """Notes what a job uses of this node while its first process there works."""
    if ranks.local_rank != 0 or not {env.JOB, env.JOB_STARTED, env.NEXT_ATTEMPT} <= set(os.environ):
        yield
        return
    node = NodeUse(run, int(os.environ[env.NEXT_ATTEMPT]), ranks.node_rank)
    stop = threading.Event()
    watcher = threading.Thread(target=keep_looking, args=(node, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(LAST_LOOK_S)


def keep_looking(node: NodeUse, stop: threading.Event) -> None:
    """Looks until `stop` is set, and once more then; the first looks come soon, for short jobs."""
    pause_s = FIRST_LOOK_S
    is_over = False
    while not is_over:
        is_over = stop.wait(pause_s)
        pause_s = min(2 * pause_s, EVERY_S)
        # A full disk, or a figure that cannot be read, is no reason to end a training.
        with suppress(OSError, ValueError):
            if node.n_gpus and not is_over:  # at its end a job leaves its GPUs
                node.look_at_gpus()
            node.look()
            node.write()


def main() -> None:
    """Prints what the job used in the attempt that is over, and the settings that would do."""
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    n = int(os.environ[env.NEXT_ATTEMPT])
    node = NodeUse(run, n, 0)
    if node.file.exists():  # its rank may have been killed since its last look
        node.look()
        node.write()
    used = format_used(used_on_nodes(run.dir, n))
    if used:
        print(f"used {used}")
    enough = settings_that_would_do(run.dir, read_attempts(run.dir))
    if used and enough:
        print(f"enough: {enough}")


@dataclass(frozen=True)
class JobUse:
    """What a job has used until now.

    Args:
        cpu_s: time of its processors, in seconds.
        memory_bytes: the most that it held. A cgroup counts files that were read, too, as long as
            they stay in memory; of processes, the peaks are added up.
    """

    cpu_s: float
    memory_bytes: int


def use_of_job(job_id: str, variable: str) -> JobUse:
    """What the job of this process has used of this node.

    Args:
        job_id: as the scheduler gave it; its cgroup has the number in its name.
        variable: NAME=value of the environment of all its processes.
    """
    cpu_s = cgroup_cpu_s(job_id)
    memory_bytes = cgroup_peak_bytes(job_id)
    if cpu_s is None or memory_bytes is None:
        processes = processes_with(variable)
        if cpu_s is None:
            cpu_s = sum(each.cpu_s for each in processes)
        if memory_bytes is None:
            memory_bytes = sum(each.peak_bytes for each in processes)
    return JobUse(cpu_s, memory_bytes)


# The cgroup of a job: job_12 of Slurm, 12.server of PBS, job.12.3 of LSF, 12.1 of Grid Engine.


def cgroups_of_job(job_id: str, controller: str) -> list[Path]:
    """The cgroup that holds the whole job on this node; none where its scheduler makes none."""
    number = re.match(r"\d+", job_id)
    if number is None:
        return []
    name_of_job = re.compile(rf"(job[_.])?{number[0]}([._\[].*)?")
    return [path for path in own_cgroups(controller) if name_of_job.fullmatch(path.name)]


def cgroup_cpu_s(job_id: str) -> float | None:
    for directory in cgroups_of_job(job_id, "cpuacct"):
        used_us = re.search(r"^usage_usec (\d+)", read_or_empty(directory / "cpu.stat"), re.M)
        if used_us:
            return int(used_us[1]) / 1e6
        used_ns = read_or_empty(directory / "cpuacct.usage").strip()
        if used_ns.isdigit():
            return int(used_ns) / 1e9
    return None


def cgroup_peak_bytes(job_id: str) -> int | None:
    for directory in cgroups_of_job(job_id, "memory"):
        for name in PEAK_FILES:
            text = read_or_empty(directory / name).strip()
            if text.isdigit():
                return int(text)
    return None


# The processes of a job, where it has no cgroup.


@dataclass(frozen=True)
class Process:
    """One process.

    Args:
        cpu_s: seconds, with those of its children that have ended.
        peak_bytes: the most memory that it held; what two processes share counts for both.
        is_marked: whether it was started with the variable that was looked for.
    """

    pid: int
    parent: int
    cpu_s: float
    peak_bytes: int
    is_marked: bool


def processes_with(variable: str) -> list[Process]:
    """The processes of this user that were started with a variable, and all that these started."""
    everything = own_processes(variable.encode())
    found = {each.pid for each in everything if each.is_marked}
    n_before = 0
    while len(found) > n_before:
        n_before = len(found)
        found |= {each.pid for each in everything if each.parent in found}
    return [each for each in everything if each.pid in found]


def own_processes(variable: bytes) -> list[Process]:
    processes = []
    for entry in os.scandir(PROC):
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                processes.append(read_process(PROC / entry.name, variable))
        except OSError:  # it has ended meanwhile, or is not ours to look into
            continue
    return processes


def read_process(directory: Path, variable: bytes) -> Process:
    """
    Raises:
        OSError: the process has ended, or may not be looked into.
    """
    stat = (directory / "stat").read_text(encoding="utf-8", errors="replace")
    # The second field is the name in parentheses, which may hold spaces.
    fields = stat.rpartition(")")[2].split()
    peak_kB = re.search(r"^VmHWM:\s*(\d+)", read_or_empty(directory / "status"), re.M)
    return Process(
        pid=int(directory.name),
        parent=int(fields[1]),
        cpu_s=sum(map(int, fields[11:15])) / TICKS_PER_S,  # user, system; the same of children
        peak_bytes=int(peak_kB[1]) * 1024 if peak_kB else 0,
        is_marked=variable in (directory / "environ").read_bytes().split(b"\0"),
    )


if __name__ == "__main__":
    main()
