# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Disks of this node: type of the file system, free space, stripes on Lustre, the node's own disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

from .memory import memory_limit_bytes, memory_used_bytes, read_or_empty

NODE_LOCAL = ("SLURM_TMPDIR", "PBS_LOCALDIR", "T4TMPDIR", "JOBSCRATCH", "TMPDIR")


def filesystem_type(path: str | Path, mounts: str | Path = "/proc/mounts") -> str:
    """The type of the file system that holds `path` (ext4, lustre, nfs4, tmpfs ...); `unknown` when not told."""
    place = os.path.realpath(path)
    found = ("", "unknown")
    for line in read_or_empty(mounts).splitlines():
        _, mount, kind, *_ = line.split()
        mount = mount.replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]


def free_bytes(directory: str | Path) -> int:
    """Room for a file in `directory`; in /dev/shm, whose pages count against the job's memory, 0.8 of what that leaves."""
    free = shutil.disk_usage(directory).free
    memory = int(0.8 * (memory_limit_bytes() - memory_used_bytes()))
    return max(0, min(free, memory)) if filesystem_type(directory) == "tmpfs" else free


def require_free_space(directory: Path, needed_bytes: int) -> None:
    """Raises the OSError of a full disk when `directory` has not so much room."""
    if (free := free_bytes(directory)) < needed_bytes:
        raise OSError(errno.ENOSPC, f"{needed_bytes / 1e6:.1f} MB needed, {free / 1e6:.1f} MB free")


def node_local_directory() -> Path | None:
    """The job's directory on the node's own disk, by the variables that schedulers set; None without one."""
    places = (Path(os.environ[name]) for name in NODE_LOCAL if os.environ.get(name))
    return next((place for place in places if place.is_dir()), None)


def create_striped(path: Path, count: int = 4, stripe_mib: int = 4) -> bool:
    """Creates `path`, empty, with a stripe layout, when it will lie on Lustre and `lfs` exists: many nodes then read it
    from several servers. Must come before the first byte; True when done."""
    return (
        _lfs(path.parent, "setstripe", "-c", str(count), "-S", f"{stripe_mib}M", str(path))
        is not None
    )


def lustre_stripes(path: Path) -> str | None:
    """What `lfs getstripe` says of a file on Lustre, in one line; None elsewhere."""
    said = _lfs(path, "getstripe", "-c", "-S", str(path))
    return None if said is None else " ".join(said.split())


def _lfs(place: Path, *words: str) -> str | None:
    """What Lustre's tool answers; None when `place` is not on Lustre, or it fails."""
    if not shutil.which("lfs") or filesystem_type(place) != "lustre":
        return None
    done = subprocess.run(["lfs", *words], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else None
