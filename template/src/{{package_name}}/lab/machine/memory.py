# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""How much memory this job may use, and how much of that is taken (cgroups of version 2 and 1, then the
node)."""

from __future__ import annotations

from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def limit_bytes() -> int:
    """The smallest limit on the way from this process's cgroup to the root, and at most the node's memory."""
    limits = [_node("MemTotal")]
    for directory in _own_cgroups():
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            text = _read(directory / name).strip()
            limits += [int(text)] if text.isdigit() else []
    return min(limits)


def taken_bytes() -> int:
    """What cannot be given back under pressure: anonymous and shared (/dev/shm) pages, not the page cache."""
    for directory in _own_cgroups():
        stat = dict(line.split() for line in _read(directory / "memory.stat").splitlines())
        if found := [int(stat[name]) for name in ("anon", "total_rss", "shmem", "total_shmem") if name in stat]:
            return sum(found)
    return _node("MemTotal") - _node("MemAvailable")


def _own_cgroups() -> list[Path]:
    """Directories of this process's memory cgroup and those above it, innermost first."""
    found = []
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        number, controllers, path = line.split(":", 2)
        root = CGROUPS if number == "0" else CGROUPS / "memory"
        if number == "0" or "memory" in controllers.split(","):
            own = root / path.lstrip("/")
            found += [place for place in (own, *own.parents) if place == root or root in place.parents]
    return found


def _node(key: str) -> int:
    lines = dict(line.split(":", 1) for line in _read(Path("/proc/meminfo")).splitlines())
    return int(lines[key].split()[0]) * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
