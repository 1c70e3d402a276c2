"""A file takes its name when all of it is on the disk; a failed write leaves nothing.

A copy is hidden until all of it is there, and continued where it was cut.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ...errors import Failed
from .errors import DataFileError

LOCK = ".lock"  # in a temporary directory: locked as long as its process lives
RANDOM = re.compile(r"[a-z0-9_]{8}")  # as tempfile ends a name
BEGINNING_S = 60  # a directory without a lock yet, and younger than this, may be another process's
BLOCK_BYTES = 8 << 20  # copied at once


@contextmanager
def temporary_directory_next_to(path: Path) -> Iterator[Path]:
    """A directory for what is not complete yet, on the disk of `path`; always removed.

    Those that killed processes left there for the same file are removed too.
    """
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        directory = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with explain_write_errors(path):
            (directory / LOCK).touch()
        with open(directory / LOCK, "r+") as lock:
            _lock(lock)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_leftovers(path: Path) -> None:
    """Removes what `temporary_directory_next_to` has made, which a name and a lock show; or nothing in it."""
    for directory in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if not directory.is_dir() or directory.is_symlink() or _is_in_use(directory):
            continue
        is_named_so = RANDOM.fullmatch(directory.name.removeprefix(f".{path.name}."))
        if is_named_so and (directory / LOCK).exists():
            shutil.rmtree(directory, ignore_errors=True)
        else:
            with suppress(OSError):  # it is not empty: somebody else's
                directory.rmdir()


def _is_in_use(directory: Path) -> bool:
    try:
        with open(directory / LOCK, "r+") as lock:
            return not _lock(lock)
    except FileNotFoundError:
        return time.time() - directory.stat().st_mtime < BEGINNING_S
    except OSError:  # another user's
        return True


def _lock(lock: IO) -> bool:
    """Locks the file if nobody has. A disk without locks (ENOSYS, ENOLCK) counts as locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def publish(temporary: Path, path: Path) -> None:
    """Gives the complete file `temporary` its final name, so that both survive a power cut."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Explains a full disk, a quota or a missing permission."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py closes a file on a full disk with RuntimeError
        raise DataFileError(
            f"{path} cannot be written: {_reason(error)}. "
            "What was under that name before is unchanged. Free space, or use --to DIRECTORY."
        ) from error


def _reason(error: OSError | RuntimeError) -> str:
    number = getattr(error, "errno", None) or _number_in(str(error))
    text = getattr(error, "strerror", None)
    if not text:
        text = os.strerror(number) if number else str(error)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full or over its quota ({text})"
    return text


def _number_in(text: str) -> int | None:
    """The error number in a message of HDF5."""
    match = re.search(r"errno = (\d+)", text)
    return int(match[1]) if match else None


@contextmanager
def open_part(part: Path) -> Iterator[IO[bytes]]:
    """A file that is not complete, to append to it; locked, until it is closed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(part, flags, 0o666), "ab") as stream:
            if not is_ours(stream, part):
                raise Failed(
                    f"another process writes {part}. Type the same again when it has ended"
                )
            yield stream
    except OSError as error:
        error.filename = error.filename or str(part)
        raise


def is_ours(stream: IO[bytes], part: Path) -> bool:
    """Whether no other process has the file locked, or has just given it its name."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks: two at once are rare, and the hash is compared
        return True
    return part.exists() and os.path.samestat(os.fstat(stream.fileno()), part.stat())


@contextmanager
def one_at_a_time(directory: Path, told: str = "") -> Iterator[None]:
    """Waits until no other process is in such a block, which is `told`; a disk without locks lets all in."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if told:
                print(f"lab: {told}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(handle)


def continue_at(part: IO[bytes], n_bytes: int) -> int:
    """Where the copy of a file goes on: at the end of what is there; at 0 when that is too much."""
    start = os.fstat(part.fileno()).st_size
    if start > n_bytes:
        part.truncate(part.seek(0))
        return 0
    return start


def read_blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(BLOCK_BYTES):
        yield block
