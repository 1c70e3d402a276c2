# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Where each array of a data file lies. The file is opened, checked and closed again: no HDF5 handle outlives
`layout`, so what comes after (memory maps at known offsets) is safe under fork, spawn, threads and DDP.

    attrs  format, version, n, complete=1 (written last), created, command, source, seed, packages ...
    /data/x           (N, ...)  contiguous, no filters, native byte order
    /data/wav         (sum L,)  ragged: one flat array, sample i is wav[offsets[i]:offsets[i + 1]]
    /data/wav_offsets (N + 1,)  int64
    /splits/train     (n,)      int64, sorted, disjoint from the other splits
every array with its sha256 as an attribute.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..errors import LabError, nearest

FORMAT = "lab-hdf5"
VERSION = 1
OFFSETS = "_offsets"
MAGIC = b"\x89HDF\r\n\x1a\n"  # how every HDF5 file begins


class DataFileError(LabError, ValueError):
    """A data file, or what should become one, is not as it must be. Says path, found, expected, and what to
    do."""


@dataclass(frozen=True)
class Array:
    """One array as it lies in the file: `shape` of `dtype` from byte `offset` on."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    sha256: str
    attrs: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """A checked data file: `n` samples, its `arrays` (fields and offsets), `splits` and root `attrs`."""

    path: Path
    identity: tuple[int, int]  # size in bytes and inode, to notice another file under the same name
    n: int
    arrays: dict[str, Array]
    splits: dict[str, Array]
    attrs: dict[str, Any]

    @property
    def fields(self) -> dict[str, Array]:
        """The arrays that hold samples (not the offsets of the ragged ones)."""
        return {name: array for name, array in self.arrays.items() if not self._are_offsets(name)}

    def is_ragged(self, name: str) -> bool:
        return name + OFFSETS in self.arrays

    def _are_offsets(self, name: str) -> bool:
        return name.endswith(OFFSETS) and name.removesuffix(OFFSETS) in self.arrays

    def split(self, name: str) -> Array:
        if name not in self.splits:
            raise DataFileError(
                f"{self.path} has no split {name!r}{nearest(name, self.splits)}. It has: "
                f"{', '.join(self.splits)}"
            )
        return self.splits[name]

    def field(self, name: str) -> Array:
        if name not in self.fields:
            raise DataFileError(
                f"{self.path} has no field {name!r}{nearest(name, self.fields)}. It has: "
                f"{', '.join(self.fields)}"
            )
        return self.arrays[name]

    def map(self, array: Array) -> np.ndarray:
        """The array as a read-only memory map (a plain ndarray, which indexes twice as fast as np.memmap).

        Raises:
            DataFileError: the file under this name is no longer the one that was checked.
        """
        if array.n_bytes == 0:
            return np.empty(array.shape, array.dtype)
        if (found := identity(self.path)) != self.identity:
            raise DataFileError(
                f"{self.path} changed while it was in use: {found[0]} bytes now, {self.identity[0]} when "
                "it was opened. "
                "Never write a data file in place; start again to read the new one."
            )
        return np.asarray(np.memmap(self.path, array.dtype, "r", array.offset, array.shape))


def identity(path: Path) -> tuple[int, int]:
    """Size in bytes and inode (not mtime: a `touch` against the purge of scratch is no change).

    Raises:
        DataFileError: there is no such file, or it may not be read.
    """
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataFileError(
            f"{path}: {error.strerror}. Expected a data file; make it with: lab data pack {Path(path).stem}"
        ) from error
    if not os.path.isfile(path):
        raise DataFileError(f"{path} is not a file, but a data file (.h5) is expected there.")
    return stat.st_size, stat.st_ino


def layout(path: str | Path) -> Layout:
    """Opens `path`, checks its structure and the hashes of its splits, and closes it (a few milliseconds).

    Raises:
        DataFileError: missing, cut short, damaged, unfinished, foreign, or stored in a way that cannot be
        mapped.
    """
    path = Path(path)
    identity_before = identity(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            attrs = {key: _plain(value) for key, value in file.attrs.items()}
            _check_root(path, attrs)
            arrays = _arrays(path, file, "data", identity_before[0])
            splits = _arrays(path, file, "splits", identity_before[0])
    except (OSError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise DataFileError(_why_unreadable(path, identity_before[0], error)) from error
    found = Layout(path, identity_before, int(attrs["n"]), arrays, splits, attrs)
    _check_lengths(found)
    _check_splits(found)
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_root(path: Path, attrs: dict[str, Any]) -> None:
    if attrs.get("format") != FORMAT:
        raise DataFileError(
            f"{path} is an HDF5 file, but not one that `lab data pack` wrote (attribute format is "
            f"{attrs.get('format')!r}, expected {FORMAT!r}). Pack it: yield its samples from a data class, "
            "docs: lab data pack --help"
        )
    if attrs.get("version") != VERSION:
        raise DataFileError(
            f"{path} has version {attrs.get('version')} of the layout; this lab reads version {VERSION}. "
            "Update the project (copier update) or pack the data again."
        )
    if attrs.get("complete") != 1:
        raise DataFileError(
            f"{path} was never finished (complete is not 1). Pack it again: lab data pack {path.stem}"
        )


def _arrays(path: Path, file: h5py.File, group: str, size: int) -> dict[str, Array]:
    arrays = {}
    for name in sorted(file[group]):
        dataset = file[group][name]  # by name: items() gives None for a damaged object
        where = f"{path}: /{group}/{name}"
        if dataset.dtype.kind not in "biufc":
            raise DataFileError(
                f"{where} has type {dataset.dtype}, which cannot be mapped. Store numbers, or bytes as a "
                "ragged uint8 field."
            )
        if not dataset.dtype.isnative:
            raise DataFileError(f"{where} is big-endian ({dataset.dtype}); pack it again with: lab data pack")
        if dataset.chunks is not None or dataset.is_virtual or dataset.external:
            raise DataFileError(
                f"{where} is chunked, compressed, virtual or external, so it cannot be mapped. Make it "
                "contiguous with:\n"
                f"  h5repack -l CONTI -f NONE '{path}' '{path.with_suffix('.contiguous.h5')}'"
            )
        attrs = {key: _plain(value) for key, value in dataset.attrs.items()}
        array = Array(
            name,
            dataset.dtype,
            dataset.shape,
            dataset.id.get_offset() or 0,
            str(attrs.pop("sha256", "")),
            attrs,
        )
        if array.n_bytes and not array.offset:
            raise DataFileError(f"{where} was never written. Pack the data again: lab data pack {path.stem}")
        if array.offset + array.n_bytes > size:
            raise DataFileError(
                f"{where} ends at byte {array.offset + array.n_bytes}, but the file has {size} bytes: it "
                "was cut short. "
                f"Copy it again, or pack it again: lab data pack {path.stem}"
            )
        arrays[name] = array
    return arrays


def _check_lengths(found: Layout) -> None:
    if found.n < 1 or not found.fields:
        raise DataFileError(
            f"{found.path} holds no samples (n is {found.n}). Pack it again from a source that has some."
        )
    for name in found.fields:
        samples = (
            found.arrays[name + OFFSETS].shape[0] - 1
            if found.is_ragged(name)
            else found.arrays[name].shape[0]
        )
        if samples != found.n:
            raise DataFileError(
                f"{found.path}: field {name!r} has {samples} samples, but the file says {found.n}. Pack it "
                "again."
            )
        if found.is_ragged(name):
            offsets = found.map(found.arrays[name + OFFSETS])
            if offsets.dtype != np.int64 or offsets[0] != 0 or offsets[-1] != found.arrays[name].shape[0]:
                raise DataFileError(
                    f"{found.path}: {name + OFFSETS} does not fit {name!r}; the file is damaged. Pack it "
                    "again."
                )


def _check_splits(found: Layout) -> None:
    for name, split in found.splits.items():
        rows = found.map(split)
        if hashlib.sha256(rows).hexdigest() != split.sha256:
            raise DataFileError(
                f"{found.path}: split {name!r} does not match its sha256; the file is damaged. "
                f"Copy it again, or pack it again: lab data pack {found.path.stem}"
            )
        if rows.dtype != np.int64 or rows.ndim != 1 or (rows.size and not 0 <= rows[0] <= rows[-1] < found.n):
            raise DataFileError(
                f"{found.path}: split {name!r} names rows that are not in 0..{found.n - 1}. Pack it again."
            )


def _why_unreadable(path: Path, size: int, error: Exception) -> str:
    text = str(error)
    again = f"Copy it again, or pack it again: lab data pack {path.stem}"
    if cut := re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", text):
        return f"{path} is cut short: {cut[1]} bytes found, {cut[2]} expected. {again}"
    if "signature not found" in text:
        with open(path, "rb") as file:
            head = file.read(8)
        return (
            f"{path} is not an HDF5 file: {size} bytes that begin with {head!r}, expected {MAGIC!r}. {again}"
        )
    if "already open for write" in text or "consistency flags" in text:
        return f"{path} was left open by a writer that was killed, so it is not complete. {again}"
    if isinstance(error, OSError) and error.errno:
        return f"{path} cannot be read: {os.strerror(error.errno)}. Check its permissions and disk."
    return f"{path} ({size} bytes) is damaged: {text}. {again}"
