"""A data file that stays open: what is read is the file that was checked, whoever takes its name."""

import os
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .bus_error import answer_bus_errors
from .file_errors import DataFileError


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

    Raises:
        DataFileError: there is no such file, or it may not be read.
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
        """A handle of the same file: by its name, or from the process that has it open.

        Raises:
            DataFileError: another file has the name, and that process is gone.
        """
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

    def is_unchanged(self) -> bool:
        """Whether nobody wrote to the file (or touched it) since it was opened: 1 µs.

        Raises:
            DataFileError: it is shorter now, so that its end cannot be read any more.
        """
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

    def map(self, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> np.ndarray:
        """A read-only memory map, as a plain ndarray, which indexes twice as fast as np.memmap.

        Raises:
            DataFileError: the file is shorter than when it was opened.
        """
        self.is_unchanged()
        answer_bus_errors()
        with open(self.handle, "rb", closefd=False) as file:
            return np.asarray(np.memmap(file, dtype, "r", offset, shape))


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
