"""What a disk's refusal to write means, and which command shows more: full, quota, read-only."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from shutil import disk_usage

from .disk import filesystem_type

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
