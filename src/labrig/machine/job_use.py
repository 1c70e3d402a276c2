"""What a job has used of this node: its cgroup says it; without one, its processes do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .memory import own_cgroups, read_or_empty

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The most that a cgroup held: version 2, version 1; of an older version 2 what it holds now.
PEAK_FILES = ("memory.peak", "memory.max_usage_in_bytes", "memory.current")


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
