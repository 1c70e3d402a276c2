"""Memory limit and use of this job: cgroups of version 2 and 1, then the node."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
LIMIT_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
USED_KEYS = ("anon", "total_rss", "shmem", "total_shmem")  # of memory.stat, versions 2 and 1


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
