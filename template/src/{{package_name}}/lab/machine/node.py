# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What this job has of its node: processor cores, memory, disks of which kind; and the request to give it back."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TypeVar

CGROUPS = Path("/sys/fs/cgroup")
PREEMPTION = (signal.SIGUSR2, signal.SIGUSR1, signal.SIGTERM)  # time limit, the user's own, the scheduler's: all alike
NODE_LOCAL = ("SLURM_TMPDIR", "PBS_LOCALDIR", "T4TMPDIR", "JOBSCRATCH", "TMPDIR")
Item, Result = TypeVar("Item"), TypeVar("Result")

# ---- cores


def cores() -> int:
    """How many cores the affinity mask leaves to this process (a job's share, where os.cpu_count() is the whole node)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int = 0, ahead: int = 4
) -> Iterator[Result]:
    """function(item) for each item, at most `ahead` per thread early; as many threads as there are cores for us."""
    n_threads = n_threads or cores()
    pool, started = ThreadPoolExecutor(n_threads, "ahead"), deque()
    try:
        for item in items:
            started.append(pool.submit(function, item))
            if len(started) > ahead * n_threads:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# ---- memory: cgroups of version 2 and 1, then the node


def limit_bytes() -> int:
    """The smallest limit on the way from this process's cgroup to the root, and at most the node's memory."""
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [_read(directory / name).strip() for directory in _own_cgroups() for name in names]
    return min(int(limit) for limit in [str(_node("MemTotal")), *limits] if limit.isdigit())


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
    for line in _read("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        root = CGROUPS if number == "0" else CGROUPS / "memory"
        if number == "0" or "memory" in controllers.split(","):
            own = root / path.lstrip("/")
            found += [place for place in (own, *own.parents) if place == root or root in place.parents]
    return found


def _node(key: str) -> int:
    lines = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
    return int(lines[key].split()[0]) * 1024


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# ---- disks


def filesystem_type(path: str | Path, mounts: str | Path = "/proc/mounts") -> str:
    """The type of the file system that holds `path` (ext4, lustre, nfs4, tmpfs ...); `unknown` when not told."""
    place = os.path.realpath(path)
    found = ("", "unknown")
    for line in _read(mounts).splitlines():
        _, mount, kind, *_ = line.split()
        mount = mount.replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]


def free_bytes(directory: str | Path) -> int:
    """Room for a file in `directory`; in /dev/shm, whose pages count against the job's memory, 0.8 of what that leaves."""
    free = shutil.disk_usage(directory).free
    memory = int(0.8 * (limit_bytes() - taken_bytes()))
    return max(0, min(free, memory)) if filesystem_type(directory) == "tmpfs" else free


def check_room(directory: Path, needed_bytes: int) -> None:
    """Raises the OSError of a full disk when `directory` has not so much room."""
    if (free := free_bytes(directory)) < needed_bytes:
        raise OSError(errno.ENOSPC, f"{needed_bytes / 1e6:.1f} MB needed, {free / 1e6:.1f} MB free")


def node_local() -> Path | None:
    """The job's directory on the node's own disk, by the variables that schedulers set; None without one."""
    places = (Path(os.environ[name]) for name in NODE_LOCAL if os.environ.get(name))
    return next((place for place in places if place.is_dir()), None)


def stripe(path: Path, count: int = 4, stripe_mib: int = 4) -> bool:
    """Creates `path`, empty, with a stripe layout, when it will lie on Lustre and `lfs` exists: many nodes then read it
    from several servers. Must come before the first byte; True when done."""
    return _lfs(path.parent, "setstripe", "-c", str(count), "-S", f"{stripe_mib}M", str(path)) is not None


def stripes(path: Path) -> str | None:
    """What `lfs getstripe` says of a file on Lustre, in one line; None elsewhere."""
    said = _lfs(path, "getstripe", "-c", "-S", str(path))
    return None if said is None else " ".join(said.split())


def _lfs(place: Path, *words: str) -> str | None:
    """What Lustre's tool answers; None when `place` is not on Lustre, or it fails."""
    if not shutil.which("lfs") or filesystem_type(place) != "lustre":
        return None
    done = subprocess.run(["lfs", *words], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else None


# ---- the request to stop: a signal only sets a flag, the program decides when


class StopRequest:
    """Remembers the first signal that asked this process to stop; `signum` is 0 until then."""

    def __init__(self) -> None:
        self.signum = 0
        self._previous: dict[int, object] = {}

    def listen(self, *signums: int) -> list[int]:
        """Takes these signals over (main thread only) and returns those that were not listened to before."""
        taken = [signum for signum in signums if signum not in self._previous]
        for signum in signums:
            self._previous.setdefault(signum, signal.signal(signum, self._remember))
        return taken

    def ignore(self, *signums: int) -> None:
        """Gives these signals back to who had them before `listen`."""
        for signum in signums:
            if signum in self._previous:
                signal.signal(signum, self._previous.pop(signum))

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and self.signum:  # Ctrl-C a second time: now
            raise KeyboardInterrupt
        self.signum = self.signum or signum


STOP = StopRequest()
