"""What this job may use of the node: its processor cores and its memory."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

MOSTLY_IDLE = 0.75  # share of the cores; with more idle, none is left to others
CPU_STAT = Path("/proc/stat")
CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
LIMIT_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
USED_KEYS = ("anon", "total_rss", "shmem", "total_shmem")  # of memory.stat, versions 2 and 1


def cores() -> int:
    """How many cores this process may use: a job's share, not the whole node."""
    return int(max(1, min(len(own_cores()), cgroup_cores())))


def own_cores() -> set[int]:
    """Numbers of the cores that the affinity mask leaves to this process."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))  # macOS


def cgroup_cores() -> float:
    """How many cores the quota of a container allows; infinite without one."""
    with suppress(OSError, ValueError):
        # Of cgroup v2: "0::/path", which is "/" within a container.
        cgroup = OWN_CGROUP.read_text().rpartition("0::/")[2].strip()
        quota_us, period_us = (CGROUP / cgroup / "cpu.max").read_text().split()
        return int(quota_us) / int(period_us)
    return float("inf")


def unused_cores(seconds: float = 0.1) -> int:
    """How many of `cores()` others leave, measured over `seconds`; 1 at least, all when most are idle.

    More threads than unused cores wait for each other: a step of a small network took four times as
    long on a busy machine with two threads as with one.
    """
    n_cores = cores()
    before = idle_times()
    time.sleep(seconds)
    after = idle_times()
    shares = [
        (after[core][0] - idle) / (after[core][1] - total)
        for core, (idle, total) in before.items()
        if core in after and after[core][1] > total
    ]
    if not shares or sum(shares) >= MOSTLY_IDLE * len(shares):
        return n_cores
    return max(1, min(n_cores, round(sum(shares))))


def idle_times() -> dict[int, tuple[int, int]]:
    """Idle and total time of each own core, in ticks since the start; empty where it is not known."""
    times = {}
    with suppress(OSError):
        for line in CPU_STAT.read_text().splitlines():
            name, *ticks = line.split()
            number = name.removeprefix("cpu")
            if name.startswith("cpu") and number.isdigit() and int(number) in own_cores():
                # user nice system idle iowait ...
                times[int(number)] = (int(ticks[3]) + int(ticks[4]), sum(map(int, ticks)))
    return times


def memory_limit_bytes() -> int:
    """The smallest limit on the way from this process's cgroup to the root, and at most the node's memory."""
    limits = [_node_bytes("MemTotal")]
    for directory in own_cgroups():
        for name in LIMIT_FILES:
            text = read_or_empty(directory / name).strip()
            if text.isdigit():  # "max" means no limit
                limits.append(int(text))
    return min(limits)


def memory_used_bytes() -> int:
    """What cannot be given back under pressure: anonymous and shared (/dev/shm) pages, not the page cache."""
    for directory in own_cgroups():
        lines = read_or_empty(directory / "memory.stat").splitlines()
        stat = dict(line.split() for line in lines)
        used = [int(stat[key]) for key in USED_KEYS if key in stat]
        if used:
            return sum(used)
    return _node_bytes("MemTotal") - _node_bytes("MemAvailable")


def own_cgroups(controller: str = "memory") -> list[Path]:
    """Directories of this process's cgroup and those above it, innermost first.

    Args:
        controller: of version 1, which has a tree for each; of version 2 there is one tree.
    """
    directories = []
    for line in read_or_empty("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        is_version_2 = number == "0"
        if not is_version_2 and controller not in controllers.split(","):
            continue
        root = CGROUPS if is_version_2 else CGROUPS / controller
        innermost = root / path.lstrip("/")
        upwards = (innermost, *innermost.parents)
        directories += [directory for directory in upwards if directory.is_relative_to(root)]
    return directories


def _node_bytes(key: str) -> int:
    """A figure of /proc/meminfo, which counts in kB."""
    for line in read_or_empty("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024
    raise KeyError(key)


def read_or_empty(path: str | Path) -> str:
    """The text of a file of the kernel; empty when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
