# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A copy of the data file in the node's memory or on its own disk, made once and shared by all who use it.

A lock file beside the copy says who does: each user holds a shared lock that the kernel drops when the
process ends, however it ends. So the last one removes the copy, and what dead jobs left is found and cleared.
"""

import fcntl
import hashlib
import os
import random
import shutil
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from ..machine.node import filesystem_type, limit_bytes, node_local, taken_bytes
from .checksum import verify
from .file_layout import DataFileError, require
from .writer import BLOCK_BYTES, FULL

POLL_S = 0.2


def stage(path: Path, where: str, owner: Any, keep: bool = False) -> Path:
    """The copy of `path` in `where` (shm, tmpdir, or a directory), there until `owner` and its other users
    are gone (`keep`: until `unstage`); or `path` itself, after one line that says why, when it does not fit.

    Raises:
        DataFileError: the copy does not match its hashes, or there is no such place.
    """
    directory = place(where)
    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    copy = directory / f"{key}-{path.name}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        unstage(directory)
        handle = _use(copy, path)
    except OSError as error:
        _remove_unused(copy)
        reason = error.strerror or error
        print(f"lab: not staged to {where}: {reason}. Reading {path} where it is.", file=sys.stderr)
        return path
    if keep:
        _beside(copy, ".keep").touch()
    weakref.finalize(owner, _leave, copy, handle, os.getpid())
    return copy


def unstage(directory: Path, path: Path | None = None) -> None:
    """Removes copies without a user: those that dead jobs left, and the kept ones of `path`."""
    for mark in directory.glob(f"*-{path.name}.keep") if path else ():
        mark.unlink()
    for lock in directory.glob("*.lock"):
        _remove_unused(lock.with_suffix(""))


def place(where: str) -> Path:
    """The directory that a value of data.stage means.

    Raises:
        DataFileError: it is not there.
    """
    found = {"shm": Path("/dev/shm"), "tmpdir": node_local()}.get(where, Path(os.path.expandvars(where)))
    expected = "expected shm, tmpdir (with TMPDIR or the scheduler's variable set) or a directory"
    require(found and found.is_dir(), f"data.stage is {where!r}, which is not here; {expected}.")
    return found / f"lab-data-{os.getuid()}"


def _beside(copy: Path, suffix: str) -> Path:
    return copy.with_name(copy.name + suffix)


def _use(copy: Path, path: Path) -> int:
    """A shared lock on `copy`, which whoever comes first makes while the others wait."""
    while True:
        handle = os.open(_beside(copy, ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            if not _is_there(handle, copy):
                fcntl.flock(handle, fcntl.LOCK_UN)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not copy.exists():
                    _copy(path, copy)
                fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_there(handle, copy):  # nobody removed both between two locks
                return handle
            os.close(handle)
        except BlockingIOError:  # another process makes it, or looks whether it may be removed
            os.close(handle)
            time.sleep(POLL_S * random.random())
        except BaseException:
            os.close(handle)
            raise


def _is_there(handle: int, copy: Path) -> bool:
    lock = _beside(copy, ".lock")
    return copy.exists() and lock.exists() and lock.stat().st_ino == os.fstat(handle).st_ino


def _copy(path: Path, copy: Path) -> None:
    size, free = path.stat().st_size, shutil.disk_usage(copy.parent).free
    if filesystem_type(copy.parent) == "tmpfs":  # its pages count against the job's memory
        free = max(0, min(free, int(0.8 * (limit_bytes() - taken_bytes()))))
    if size > free:
        raise OSError(FULL[0], f"{size / 1e9:.3f} GB needed, {free / 1e9:.3f} GB of disk and memory free")
    temporary = _beside(copy, ".tmp")
    try:
        shutil.copyfile(path, temporary)
        verify(temporary)
        os.replace(temporary, copy)
    except DataFileError as error:
        raise DataFileError(f"{path} was copied, but the copy is not right: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _leave(copy: Path, handle: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked worker shares the lock, and must not drop it
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)
        _remove_unused(copy)


def _remove_unused(copy: Path) -> None:
    if _beside(copy, ".keep").exists() and copy.exists():
        return
    try:
        handle = os.open(_beside(copy, ".lock"), os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for suffix in ("", ".tmp", ".keep", ".lock"):
            _beside(copy, suffix).unlink(missing_ok=True)
    except BlockingIOError:
        pass  # in use
    finally:
        os.close(handle)


def warm(path: Path) -> None:
    """Reads the file once, in order, into the page cache, when it fits in half of the memory limit: a cold
    Lustre or NFS serves that many times faster than the random reads of a first epoch."""
    size = path.stat().st_size
    if size > limit_bytes() / 2:
        return
    with open(path, "rb", buffering=0) as file:
        try:  # looks at 64 places whether they are in memory already
            places = range(0, size, max(1, size // 64))
            if all(os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT) for at in places):
                return
        except OSError:  # not in memory, or a file system that cannot tell
            pass
        buffer = bytearray(BLOCK_BYTES)
        while file.readinto(buffer):
            pass
