"""The errors of a data file that is not right, and what to do about it."""

import os
import re
from pathlib import Path

from ...errors import LabError

SIGNATURE = b"\x89HDF\r\n\x1a\n"  # every HDF5 file begins with it


class DataFileError(LabError, ValueError):
    """A data file, or what should become one, is not right."""


class ForeignFileError(DataFileError):
    """An HDF5 file that `lab data pack` did not write."""


def damaged(path: Path, damage: str) -> DataFileError:
    """The error for a file that was never complete, or has changed since it was written."""
    return DataFileError(
        f"{path}: {damage}. Copy the file again, or pack it again: lab data pack {path.stem}"
    )


def unreadable(path: Path, size_bytes: int, error: Exception) -> DataFileError:
    """The error for a file that h5py could not read because of `error`."""
    text = str(error)
    cut_short = re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", text)
    if cut_short:
        return damaged(path, f"cut short: {cut_short[1]} bytes found, {cut_short[2]} expected")
    if "signature not found" in text:
        with open(path, "rb") as file:
            start = file.read(len(SIGNATURE))
        return damaged(
            path,
            f"not an HDF5 file: {size_bytes} bytes that begin with {start!r}, "
            f"expected {SIGNATURE!r}",
        )
    if "already open for write" in text or "consistency flags" in text:
        return damaged(path, "not complete: it is open for writing, or its writer was killed")
    if "locking flag" in text:
        return DataFileError(f"{path} is open in this process through h5py. Close it there first.")
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
        return DataFileError(f"{path} cannot be read: {reason}. Check its permissions and disk.")
    return damaged(path, f"damaged ({size_bytes} bytes): {text}")
