# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Where a data file is read from: found along a search path, then read once, or copied to the node's memory or disk.

Such a copy is made once and shared by all who use it. Each holds a shared lock on it, which the kernel drops when the
process ends, however it ends. So the last one removes the copy, and what dead jobs left is found and cleared.
"""

import fcntl
import glob
import os
import shutil
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..machine.node import check_room, limit_bytes, node_local
from ..project import Project, resolve_paths
from .file_layout import BLOCK_BYTES, DataFileError, key_of, require, verify


def find(path: str | Path, search: Sequence[str | Path]) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    if path.is_absolute():
        return path
    root = Path.cwd()
    with suppress(LabError):  # outside of a project, relative directories lie here
        root = Project.find().root
    directories = resolve_paths({"runs": ".", "data": [str(entry) for entry in search]}, root)["data"]
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    there = [other.name for directory in directories for other in directory.glob("*.h5")]
    places = ", ".join(map(str, directories)) or "an empty search path"
    found = f"no data file {path} in {places}{nearest(path.name, there)}"
    raise DataFileError(f"{found}. Make it with: lab data pack {path.stem}")


def stage(path: Path, where: str, owner: Any, keep: bool = False) -> Path:
    """The copy of `path` in `where` (shm, tmpdir, or a directory), there until `owner` and its other users
    are gone (`keep`: until `unstage`); or `path` itself, after one line that says why, when it does not fit.

    Raises:
        DataFileError: the copy does not match its hashes, or there is no such place.
    """
    directory = place(where)
    copy = directory / key_of(path)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _alone(directory):
            _remove_unused(*directory.iterdir())
            handle = _use(copy, path)
            if keep:
                copy.chmod(0o400)  # read-only: kept without a user
    except OSError as error:
        print(f"lab: not staged to {where}: {error.strerror or error}. Reading {path} where it is.", file=sys.stderr)
        return path
    weakref.finalize(owner, _leave, copy, handle, os.getpid())
    return copy


def unstage(directory: Path, path: Path) -> None:
    """Removes copies without a user: the kept ones of `path`, and those that dead jobs left."""
    if directory.exists():
        with _alone(directory):
            for copy in directory.glob(f"*-{glob.escape(path.name)}"):
                copy.chmod(0o600)
            _remove_unused(*directory.iterdir())


def place(where: str) -> Path:
    """The directory that a value of data.stage means.

    Raises:
        DataFileError: it is not there.
    """
    found = {"shm": Path("/dev/shm"), "tmpdir": node_local()}.get(where, Path(os.path.expandvars(where)))
    expected = "expected shm, tmpdir (with TMPDIR or the scheduler's variable set) or a directory"
    require(found and found.is_dir(), f"data.stage is {where!r}, which is not here; {expected}.")
    return found / f"lab-data-{os.getuid()}"


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Nobody else makes a copy in `directory` meanwhile."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _use(copy: Path, path: Path) -> int:
    """`copy`, made unless it is there, opened with a shared lock."""
    while True:
        try:
            handle = os.open(copy, os.O_RDONLY)
        except FileNotFoundError:
            _copy(path, copy)
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:  # its last user did not remove it between these two lines
            return handle
        os.close(handle)


def _copy(path: Path, copy: Path) -> None:
    check_room(copy.parent, path.stat().st_size)
    temporary = copy.with_suffix(".tmp")
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


def _remove_unused(*copies: Path) -> None:
    for copy in copies:
        with suppress(FileNotFoundError, BlockingIOError), open(copy, "rb") as file:  # gone, or in use
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_mode & 0o200:
                copy.unlink()


def warm(path: Path) -> None:
    """Reads the file once, in order, into the page cache, when it fits in half of the memory limit: a cold
    Lustre or NFS serves that many times faster than the random reads of a first epoch."""
    size = path.stat().st_size
    if size > limit_bytes() / 2:
        return
    with open(path, "rb", buffering=0) as file:
        places = range(0, size, max(1, size // 64))
        with suppress(OSError):  # not in memory, or a file system that cannot tell
            if all(os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT) for at in places):
                return
        buffer = bytearray(BLOCK_BYTES)
        while file.readinto(buffer):
            pass
