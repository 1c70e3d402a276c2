"""A file that is copied bit by bit: hidden until all of it is there, and continued where it was cut."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...errors import Failed

BLOCK_BYTES = 8 << 20  # copied at once


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
