# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What kind of disk a path lies on, its free room, where the node's own disks are, and how Lustre stripes a file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

from .memory import limit_bytes, taken_bytes

NODE_LOCAL = ("SLURM_TMPDIR", "PBS_LOCALDIR", "T4TMPDIR", "JOBSCRATCH", "TMPDIR")


def filesystem_type(path: str | Path, mounts: str | Path = "/proc/mounts") -> str:
    """The type of the file system that holds `path` (ext4, lustre, nfs4, tmpfs ...); `unknown` when not
    told."""
    place = os.path.realpath(path)
    found = ("", "unknown")
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found[1]
    for line in lines:
        _, mount, kind, *_ = line.split()
        mount = mount.replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1]


def free_bytes(directory: str | Path) -> int:
    """Room for a file in `directory`; in /dev/shm, whose pages count against the job's memory, 0.8 of what that leaves."""
    free = shutil.disk_usage(directory).free
    return (
        max(0, min(free, int(0.8 * (limit_bytes() - taken_bytes())))) if filesystem_type(directory) == "tmpfs" else free
    )


def check_room(directory: Path, needed_bytes: int) -> None:
    """Raises the OSError of a full disk when `directory` has not so much room."""
    if (free := free_bytes(directory)) < needed_bytes:
        raise OSError(errno.ENOSPC, f"{needed_bytes / 1e6:.1f} MB needed, {free / 1e6:.1f} MB free")


def node_local() -> Path | None:
    """The job's directory on the node's own disk, by the variables that schedulers set; None without one."""
    places = (Path(os.environ[name]) for name in NODE_LOCAL if os.environ.get(name))
    return next((place for place in places if place.is_dir()), None)


def stripe(path: Path, count: int = 4, stripe_mib: int = 4) -> bool:
    """Creates `path`, empty, with a stripe layout, when it will lie on Lustre and `lfs` exists: many nodes
    then read it from several servers. Must come before the first byte; True when done."""
    lfs = shutil.which("lfs")
    if lfs is None or filesystem_type(path.parent) != "lustre":
        return False
    command = [lfs, "setstripe", "-c", str(count), "-S", f"{stripe_mib}M", str(path)]
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def stripes(path: Path) -> str | None:
    """What `lfs getstripe` says of a file on Lustre, in one line; None elsewhere."""
    lfs = shutil.which("lfs")
    if lfs is None or filesystem_type(path) != "lustre":
        return None
    command = [lfs, "getstripe", "-c", "-S", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return " ".join(done.stdout.split()) if done.returncode == 0 else None
