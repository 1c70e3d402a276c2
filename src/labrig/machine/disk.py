"""Disks of this node: type of the file system, free space, stripes on Lustre, the node's own ones.

What a disk's refusal to write means: full, a quota, read-only; and which command shows more.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
from pathlib import Path
from shutil import disk_usage

from .command import output_of
from .resources import memory_limit_bytes, memory_used_bytes, read_or_empty

NODE_LOCAL = ("SLURM_TMPDIR", "PBS_LOCALDIR", "T4TMPDIR", "JOBSCRATCH", "TMPDIR")
FEW_INODES = 1000
FEW_BYTES = 10**7
# The command that shows how much of a quota is used, by the type of the file system.
QUOTA_COMMANDS = {
    "lustre": "lfs quota -h -u $USER {place}",
    "gpfs": "mmlsquota --block-size auto",
    "beegfs": "beegfs-ctl --getquota --uid $USER",
    "fuse.ceph": "getfattr -n ceph.quota {place}",
    "ceph": "getfattr -n ceph.quota {place}",
    "zfs": "zfs userspace {place}",
}


def filesystem_type(path: str | Path, mounts: str | Path = "/proc/mounts") -> str:
    """The type of the file system that holds `path`: ext4, lustre, nfs4, tmpfs …; or `unknown`."""
    place = os.path.realpath(path)
    innermost_mount = ""
    kind_of_innermost = "unknown"
    for line in read_or_empty(mounts).splitlines():
        _, mount, kind, *_ = line.split()
        mount = mount.replace("\\040", " ")
        holds_place = place == mount or place.startswith(mount.rstrip("/") + "/")
        if holds_place and len(mount) >= len(innermost_mount):
            innermost_mount = mount
            kind_of_innermost = kind
    return kind_of_innermost


def mounts_below(directory: Path) -> list[str]:
    """Where other disks or folders are mounted below a directory, also of the same disk (bind)."""
    inside = os.path.join(os.path.realpath(directory), "")
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return [
            folder for folder, *_ in os.walk(inside) if folder != inside and os.path.ismount(folder)
        ]
    places = [re.sub(r"\\([0-7]{3})", as_character, line.split(" ")[4]) for line in lines]
    return sorted(place for place in places if place.startswith(inside))


def as_character(match: re.Match[str]) -> str:
    """A space, a tab or another character as the kernel writes it in a path."""
    return chr(int(match[1], 8))


def free_bytes(directory: str | Path) -> int:
    """Room for a file in `directory`.

    Pages of /dev/shm count against the job's memory: there it is 0.8 of what the job's limit leaves.
    """
    free_on_disk = shutil.disk_usage(directory).free
    if filesystem_type(directory) != "tmpfs":
        return free_on_disk
    free_in_memory = int(0.8 * (memory_limit_bytes() - memory_used_bytes()))
    return max(0, min(free_on_disk, free_in_memory))


def require_free_space(directory: Path, needed_bytes: int) -> None:
    """Checks that `directory` has so much room."""
    free = free_bytes(directory)
    if free < needed_bytes:
        raise OSError(errno.ENOSPC, f"{needed_bytes / 1e6:.1f} MB needed, {free / 1e6:.1f} MB free")


def node_local_directory() -> Path | None:
    """The job's directory on the node's own disk, by the variables that schedulers set; None without one."""
    for name in NODE_LOCAL:
        value = os.environ.get(name)
        if value and Path(value).is_dir():
            return Path(value)
    return None


def create_striped(path: Path, count: int = 4, stripe_MiB: int = 4) -> bool:
    """Creates `path`, empty, spread over several servers when it will lie on Lustre and `lfs` exists.

    Many nodes then read it faster. It must be called before the first byte is written. The same
    holds for the later files of a directory, which exists.

    Returns:
        Whether that was done.
    """
    answer = _lfs(path.parent, "setstripe", "-c", str(count), "-S", f"{stripe_MiB}M", str(path))
    return answer is not None


def lustre_stripes(path: Path) -> str | None:
    """What `lfs getstripe` prints of a file on Lustre, in one line; None elsewhere."""
    answer = _lfs(path, "getstripe", "-c", "-S", str(path))
    if answer is None:
        return None
    return " ".join(answer.split())


def _lfs(place: Path, *words: str) -> str | None:
    """What Lustre's tool prints; None when `place` is not on Lustre, or the tool fails."""
    if filesystem_type(place) != "lustre":
        return None
    return output_of("lfs", *words, timeout_s=60)


def explain_disk_error(error: OSError, place: Path | str | None = None) -> str | None:
    """What was found, where, and what shows more, in one line without a full stop.

    Args:
        place: what was written, if the error does not name it.

    Returns:
        None when the error is none of a disk: ENOSPC, EDQUOT, ELOOP, EROFS, EACCES or EPERM.
    """
    named = error.filename or place or Path.cwd()
    # An error may name an open file by its number.
    directory = existing_directory(named if isinstance(named, str | os.PathLike) else Path.cwd())
    match error.errno:
        case errno.ENOSPC:
            if error.filename or place or disk_usage(directory).free < FEW_BYTES:
                return explain_full_disk(named, directory)
            return (
                "no space left for the output, or for a file that was not named. See: df -h, df -i"
            )
        case errno.EDQUOT:
            command = QUOTA_COMMANDS.get(filesystem_type(directory), "quota -s")
            return (
                f"your quota is used up on the disk of {named}. "
                f"See it with: {command.format(place=directory)}. Delete files: lab runs prune"
            )
        case errno.ELOOP:
            return f"{named} is a link, and lab writes through no link. Remove it: rm {named}"
        case errno.EROFS:
            return (
                f"the disk of {named} is read-only. See: findmnt -T {directory}. "
                "To write elsewhere: paths.runs=DIRECTORY"
            )
        case errno.EACCES | errno.EPERM:
            return f"no permission for {named}; {directory} belongs to {owner_of(directory)}"
    return None


def explain_full_disk(place: str | os.PathLike[str], directory: Path) -> str:
    """Whether room or the number of files is at its limit.

    What could not be written may be gone again, so a few inodes or bytes can be free.
    """
    disk = os.statvfs(directory)
    few_inodes = disk.f_files > 0 and disk.f_favail < FEW_INODES
    if few_inodes and disk.f_favail / disk.f_files < disk.f_bavail / disk.f_blocks:
        reason = f"too many files on the disk of {place} ({disk.f_favail} inodes left)"
        return f"{reason}. See: df -i {directory}. Delete files: lab runs prune"
    free_MB = disk.f_bavail * disk.f_frsize / 1e6
    reason = f"no space left on the disk of {place} ({free_MB:,.1f} MB free)"
    return f"{reason}. See: df -h {directory}. Free some: lab runs prune"


def existing_directory(place: str | os.PathLike[str]) -> Path:
    """The innermost directory that exists and holds `place`."""
    directory = Path(place).absolute()
    while not os.path.isdir(directory):  # False too for what lies in a closed directory
        directory = directory.parent
    return directory


def owner_of(directory: Path) -> str:
    """The name of who owns a directory, or the number where there is no name."""
    uid = directory.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
