# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Memory limit and use of this job: cgroups of version 2 and 1, then the node."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def memory_limit_bytes() -> int:
    """The smallest limit on the way from this process's cgroup to the root, and at most the node's memory."""
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [
        read_or_empty(directory / name).strip() for directory in _own_cgroups() for name in names
    ]
    return min(int(limit) for limit in [str(_node("MemTotal")), *limits] if limit.isdigit())


def memory_used_bytes() -> int:
    """What cannot be given back under pressure: anonymous and shared (/dev/shm) pages, not the page cache."""
    for directory in _own_cgroups():
        stat = dict(line.split() for line in read_or_empty(directory / "memory.stat").splitlines())
        if found := [
            int(stat[name])
            for name in ("anon", "total_rss", "shmem", "total_shmem")
            if name in stat
        ]:
            return sum(found)
    return _node("MemTotal") - _node("MemAvailable")


def _own_cgroups() -> list[Path]:
    """Directories of this process's memory cgroup and those above it, innermost first."""
    found = []
    for line in read_or_empty("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        root = CGROUPS if number == "0" else CGROUPS / "memory"
        if number == "0" or "memory" in controllers.split(","):
            own = root / path.lstrip("/")
            found += [
                place for place in (own, *own.parents) if place == root or root in place.parents
            ]
    return found


def _node(key: str) -> int:
    lines = dict(line.split(":", 1) for line in read_or_empty("/proc/meminfo").splitlines())
    return int(lines[key].split()[0]) * 1024


def read_or_empty(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
