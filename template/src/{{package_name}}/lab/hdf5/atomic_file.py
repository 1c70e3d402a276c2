# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A file takes its name when all of it is on the disk; a failed write leaves nothing."""

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .file_errors import DataFileError


def temporary_directory_next_to(path: Path) -> tempfile.TemporaryDirectory:
    """A directory for what is not complete yet, on the disk of `path`; always removed.

    Raises:
        DataFileError: the directory of `path` cannot be made or written to.
    """
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(
            prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True
        )


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
    """Explains a full disk, a quota or a missing permission.

    Raises:
        DataFileError: the block could not write; with `path` and the reason.
    """
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
