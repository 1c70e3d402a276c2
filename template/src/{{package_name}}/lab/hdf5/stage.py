# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Copies a data file to node-local memory or disk, once for a node, verified."""

import fcntl
import glob
import os
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..machine.disk import require_free_space
from ..machine.memory import memory_limit_bytes
from ..project import Project
from .checksum import key_of, verify_file
from .file_layout import BLOCK_BYTES, DataFileError
from .find import add_file_argument, data_file_of, data_place


def stage(path: Path, where: str, owner: Any, keep: bool = False) -> Path:
    """The copy of `path` in `where` (shm, tmpdir, or a directory), there until `owner` and its other users
    are gone (`keep`: until `unstage`); or `path` itself, after one line that says why, when it does not fit.

    Raises:
        DataFileError: the copy does not match its hashes, or there is no such place.
    """
    directory = data_place(where)
    copy = directory / key_of(path)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _alone(directory):
            _remove_unused(*directory.iterdir())
            handle = _use(copy, path)
            if keep:
                copy.chmod(0o400)  # read-only: kept without a user
    except OSError as error:
        print(
            f"lab: not staged to {where}: {error.strerror or error}. Reading {path} where it is.",
            file=sys.stderr,
        )
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
    require_free_space(copy.parent, path.stat().st_size)
    temporary = copy.with_suffix(".tmp")
    try:
        shutil.copyfile(path, temporary)
        verify_file(temporary)
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
        with (
            suppress(FileNotFoundError, BlockingIOError),
            open(copy, "rb") as file,
        ):  # gone, or in use
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_mode & 0o200:
                copy.unlink()


def read_into_cache(path: Path) -> None:
    """Reads the file once, in order, into the page cache, when it fits in half of the memory limit: a cold
    Lustre or NFS serves that many times faster than the random reads of a first epoch."""
    size = path.stat().st_size
    if size > memory_limit_bytes() / 2:
        return
    with open(path, "rb", buffering=0) as file:
        places = range(0, size, max(1, size // 64))
        with suppress(OSError):  # not in memory, or a file system that cannot tell
            if all(os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT) for at in places):
                return
        buffer = bytearray(BLOCK_BYTES)
        while file.readinto(buffer):
            pass


def stage_command(project: Project, args: list[str]) -> None:
    parser = add_file_argument(
        "stage",
        "copies a data file to this node, for trainings with data.stage set to the same place",
    )
    parser.add_argument(
        "--to", default="shm", help="shm (/dev/shm), tmpdir, or a directory (default: shm)"
    )
    parser.add_argument("--remove", action="store_true", help="remove the copy")
    options = parser.parse_args(args)
    path = data_file_of(project, options.name)
    if options.remove:
        unstage(data_place(options.to), path)
        print(f"no unused copy of {path.name} is left in {data_place(options.to)}")
    elif (copy := stage(path, options.to, owner=parser, keep=True)) != path:
        print(f"{copy} is kept until: lab data stage {options.name} --to {options.to} --remove")
