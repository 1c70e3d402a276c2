"""A data file that stays open: what is read is the file that was checked, whoever takes its name."""

import ctypes
import mmap
import os
import signal
import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataFileError

# A mapped file that is cut in the moment it is read: a sentence, where the system sends SIGBUS.

SENTENCE = (
    "lab: a data file was cut short while it was read, or its disk failed (SIGBUS). "
    "Copy or pack the file again; then: lab resume RUN\n"
)
EXIT_CODE = 1
LEAST_READ_AHEAD_KB = 128  # Linux's default
PIECE_BYTES = 64 << 10


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def say_and_exit(signal_number: int) -> None:
    """Ends the process. To return would read the same address again, for ever."""
    os.write(2, SENTENCE.encode())
    os._exit(EXIT_CODE)


def answer_bus_errors() -> None:
    """Installs the handler. Called at each opening of a file, for others (torch's workers) install theirs.

    Python's own handlers run between two instructions, and the one that failed never ends. So this
    one is called by the C library.
    """
    ctypes.CDLL(None).signal(signal.SIGBUS, say_and_exit)


@dataclass(frozen=True)
class FileIdentity:
    """Tells one file from another under the same name.

    The time of change is left out: `touch`, against the purge of a scratch disk, does not make
    another file.
    """

    size_bytes: int
    inode: int
    device: int


class OpenFile:
    """A file opened for reading.

    Packing again replaces the file under this name; whoever opened the old one continues to read it.
    A pickled OpenFile, as a worker process gets it, opens the same file again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open(_open(path))
        self.identity = identity_of(self.handle)
        self.mtime_ns = os.fstat(self.handle).st_mtime_ns
        self.pid = os.getpid()

    def _open(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, os.close, handle)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open(self._open_again())

    def _open_again(self) -> int:
        """A handle of the same file: by its name, or from the process that has it open."""
        for place in (self.path, Path(f"/proc/{self.pid}/fd/{self.handle}")):
            try:
                handle = _open(place)
            except DataFileError:
                continue
            if identity_of(handle) == self.identity:
                return handle
            os.close(handle)
        raise self.replaced()

    def replaced(self) -> DataFileError:
        """The error for another file under the name of the one that was checked."""
        return DataFileError(
            f"{self.path} is another file now than the one that was opened "
            f"({self.identity.size_bytes} bytes). Start again to read the new one."
        )

    def has_its_name(self) -> bool:
        """Whether this file is the one that its name leads to now."""
        try:
            return os.stat(self.path).st_ino == self.identity.inode
        except OSError:
            return False

    def is_unchanged(self) -> bool:
        """Whether nobody wrote to the file (or touched it) since it was opened: 1 µs."""
        stat = os.fstat(self.handle)
        if stat.st_size < self.identity.size_bytes:
            raise DataFileError(
                f"{self.path} was cut short while it was read: {stat.st_size} bytes, "
                f"{self.identity.size_bytes} when it was opened. Copy or pack the file again."
            )
        return stat.st_mtime_ns == self.mtime_ns

    def accept_changes(self) -> None:
        """Takes the file as it is now for unchanged."""
        self.mtime_ns = os.fstat(self.handle).st_mtime_ns

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Reads bytes from `offset` on; returns how many, 0 at the end of the file."""
        return os.preadv(self.handle, [buffer], offset)

    def tell_ahead(self, offset: int, n_bytes: int) -> None:
        """Lets the disk begin to read these bytes into the page cache, and does not wait for them.

        Whole pieces are read, so that a field of a few bytes a sample takes few requests.
        """
        end = -(-(offset + n_bytes) // PIECE_BYTES) * PIECE_BYTES
        step = told_at_once_bytes(self.identity.device)
        for start in range(offset // PIECE_BYTES * PIECE_BYTES, end, step):
            n_told = min(step, end - start)
            os.posix_fadvise(self.handle, start, n_told, os.POSIX_FADV_WILLNEED)

    def map(
        self, dtype: np.dtype, offset: int, shape: tuple[int, ...], is_told: bool = False
    ) -> np.ndarray:
        """A read-only memory map, as a plain ndarray, which indexes twice as fast as np.memmap.

        Args:
            is_told: what is read was told ahead, so the kernel reads nothing around a missing page.

        Raises:
            DataFileError: the file is shorter than when it was opened.
        """
        self.is_unchanged()
        answer_bus_errors()
        with open(self.handle, "rb", closefd=False) as file:
            mapped = np.memmap(file, dtype, "r", offset, shape)
        if is_told and isinstance(mapped.base, mmap.mmap):
            mapped.base.madvise(mmap.MADV_RANDOM)
        return np.asarray(mapped)


@cache
def told_at_once_bytes(device: int) -> int:
    """How much the kernel reads ahead for one call: what the disk takes in one request, or reads
    ahead by itself, if that is more. It drops the rest.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    disk = Path("/sys/dev/block") / number
    sizes_KB = [LEAST_READ_AHEAD_KB]
    for place in (
        disk / "queue/max_sectors_kb",
        disk / "../queue/max_sectors_kb",  # of a partition
        Path("/sys/class/bdi") / number / "read_ahead_kb",  # also of a network disk
    ):
        with suppress(OSError, ValueError):
            sizes_KB.append(int(place.read_text()))
    return max(sizes_KB) << 10


def identity_of(handle: int) -> FileIdentity:
    stat = os.fstat(handle)
    return FileIdentity(stat.st_size, stat.st_ino, stat.st_dev)


def _open(path: Path) -> int:
    remedy = f"Expected a data file; make it with: lab data pack {path.stem}"
    if path.exists() and not path.is_file():
        raise DataFileError(f"{path} is not a file. {remedy}")
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DataFileError(f"{path}: {error.strerror}. {remedy}") from error
