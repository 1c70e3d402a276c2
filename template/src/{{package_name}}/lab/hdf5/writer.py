# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Writes a data file: checked first, streamed in blocks, hashed on the way, under a temporary name until
complete."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .file_layout import FORMAT, OFFSETS, VERSION, DataFileError

BLOCK_BYTES = 8 << 20
ALIGNMENT_BYTES = 1 << 20  # fields from this size on begin at a whole stripe


@dataclass
class Column:
    """One array to write: `blocks` gives it from the first row to the last, in pieces of about
    BLOCK_BYTES."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[np.ndarray]]
    attrs: dict[str, Any]

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def write(path: str | Path, fields: Mapping[str, Any], splits: Mapping[str, Any], **provenance: Any) -> Path:
    """Writes one data file and returns its path; what was under that name is replaced only when all is on the
    disk.

    Args:
        path: the file to make, usually ending in .h5.
        fields: name -> array (N, ...) of numbers, or list of N one-dimensional arrays (a ragged field).
        splits: name -> indices in 0..N-1; no index twice, neither within nor across splits.
        provenance: attributes of the file: where the data is from, seed, command ...

    Raises:
        DataFileError: nothing to write, unequal lengths, wrong types, splits that overlap or are out of
            range, NaN labels, no space, no permission. Nothing is left on the disk.
    """
    columns = [column for name, value in fields.items() for column in _columns(path, name, value)]
    return write_columns(path, columns, splits, provenance)


def write_columns(
    path: str | Path, columns: Sequence[Column], splits: Mapping[str, Any], provenance: Mapping[str, Any]
) -> Path:
    """`write`, for arrays that come in blocks and need never be in memory as a whole."""
    path = Path(path)
    n = _number_of_samples(path, columns)
    rows_of = _checked_splits(path, splits, n)
    needed = sum(column.n_bytes for column in columns) + sum(rows.nbytes for rows in rows_of.values())
    with _under_temporary_name(path, needed) as temporary, _create(temporary) as file:
        file.attrs.update(
            {"format": FORMAT, "version": VERSION, "n": n, "complete": 0, **origin(), **provenance}
        )
        for column in columns:
            _write_array(path, file, f"data/{column.name}", column)
        for name, rows in rows_of.items():
            _write_array(
                path,
                file,
                f"splits/{name}",
                Column(name, rows.dtype, rows.shape, lambda r=rows: iter([r]), {}),
            )
        file.attrs["complete"] = 1
    return path


def origin() -> dict[str, Any]:
    """What made the file: time, command, host and the versions of what wrote it."""
    packages = [f"{name}=={version(name)}" for name in ("h5py", "numpy")]
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(sys.argv),
        "host": socket.gethostname(),
        "packages": " ".join([f"python=={sys.version.split()[0]}", *packages]),
    }


def _columns(path: str | Path, name: str, value: Any) -> list[Column]:
    if isinstance(value, (list, tuple)) and len(value) and all(np.ndim(sample) == 1 for sample in value):
        samples = [np.asarray(sample) for sample in value]
        dtypes = {sample.dtype for sample in samples}
        if len(dtypes) > 1:
            raise DataFileError(
                f"{path}: field {name!r} mixes types {sorted(map(str, dtypes))}; convert its samples to "
                "one type."
            )
        lengths = np.array([len(sample) for sample in samples], np.int64)
        return ragged_columns(name, samples[0].dtype, lengths, lambda: _joined(samples))
    array = value if hasattr(value, "dtype") and isinstance(value, np.ndarray) else np.asarray(value)
    return [Column(name, array.dtype, array.shape, lambda: _slices(array), {})]


def ragged_columns(
    name: str,
    dtype: np.dtype,
    lengths: np.ndarray,
    blocks: Callable[[], Iterator[np.ndarray]],
    attrs: dict[str, Any] | None = None,
) -> list[Column]:
    """The flat array of a ragged field and its offsets; `lengths` (N,) are those of its samples."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return [
        Column(name, dtype, (int(offsets[-1]),), blocks, attrs or {}),
        Column(name + OFFSETS, offsets.dtype, offsets.shape, lambda: _slices(offsets), {}),
    ]


def rows_per_block(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """How many rows of an array of `shape` make about BLOCK_BYTES."""
    return max(1, BLOCK_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))))


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    step = rows_per_block(array.dtype, array.shape)
    return (array[start : start + step] for start in range(0, len(array), step))


def _joined(samples: list[np.ndarray]) -> Iterator[np.ndarray]:
    start = 0
    while start < len(samples):
        stop, n_bytes = start, 0
        while stop < len(samples) and n_bytes < BLOCK_BYTES:
            n_bytes += samples[stop].nbytes
            stop += 1
        yield np.concatenate(samples[start:stop])
        start = stop


def _number_of_samples(path: Path, columns: Sequence[Column]) -> int:
    names = [column.name for column in columns]
    lengths = {}
    for column in columns:
        if column.name.endswith(OFFSETS) and column.name.removesuffix(OFFSETS) in names:
            lengths[column.name.removesuffix(OFFSETS)] = column.shape[0] - 1
        elif column.name + OFFSETS not in names:
            if not column.shape:
                raise DataFileError(
                    f"{path}: field {column.name!r} is a single value; expected an array of one row per "
                    "sample."
                )
            lengths[column.name] = column.shape[0]
        if column.dtype.kind not in "biufc" or column.dtype.itemsize > (
            16 if column.dtype.kind == "c" else 8
        ):
            raise DataFileError(
                f"{path}: field {column.name!r} has type {column.dtype}; expected numbers of at most 64 "
                "bits. "
                "Texts and encoded images go into a ragged uint8 field (a list of arrays of bytes)."
            )
        if not column.name.isidentifier():
            raise DataFileError(f"{path}: {column.name!r} cannot name a field; use letters, digits and _.")
    if not lengths or not max(lengths.values()):
        raise DataFileError(f"{path}: no samples to write. Check the source: a data file holds at least one.")
    if len(set(lengths.values())) > 1 or len(names) != len(set(names)):
        raise DataFileError(
            f"{path}: the fields differ in number of samples: {lengths}. Each needs one row per sample."
        )
    return next(iter(lengths.values()))


def _checked_splits(path: Path, splits: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    owner = np.zeros(n, np.int8)
    names = list(splits)
    if len(names) > 100:
        raise DataFileError(f"{path}: {len(names)} splits; at most 100 are supported.")
    rows_of = {}
    for number, name in enumerate(names, start=1):
        rows = np.asarray(splits[name])
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise DataFileError(
                f"{path}: split {name!r} must be a list of row numbers, found {rows.dtype} of shape "
                f"{rows.shape}."
            )
        rows = np.sort(rows.astype(np.int64))
        if rows.size and not 0 <= rows[0] <= rows[-1] < n:
            raise DataFileError(
                f"{path}: split {name!r} has rows {rows[0]}..{rows[-1]}, but there are samples 0..{n - 1}."
            )
        if (rows[1:] == rows[:-1]).any():
            raise DataFileError(f"{path}: split {name!r} has row {rows[1:][rows[1:] == rows[:-1]][0]} twice.")
        if (taken := owner[rows]).any():
            row = rows[taken.argmax()]
            raise DataFileError(
                f"{path}: row {row} is in split {name!r} and in {names[owner[row] - 1]!r}; splits must be "
                "disjoint."
            )
        owner[rows] = number
        rows_of[name] = rows
    return rows_of


@contextmanager
def _under_temporary_name(path: Path, needed_bytes: int) -> Iterator[Path]:
    """A name beside `path`, synced and renamed to it at the end, removed when anything fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < needed_bytes:
            raise DataFileError(
                f"{path}: {needed_bytes / 1e6:.1f} MB are needed, but only {free / 1e6:.1f} MB are free on "
                "that disk. "
                "Free some, or name another place with --to DIRECTORY."
            )
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> DataFileError:
    """The answer to an OSError of writing: full disk, quota, read-only place, missing permission."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "no space left" in str(error).lower()
    reason = "the disk is full or over its quota" if full else error.strerror or str(error)
    return DataFileError(
        f"{path} cannot be written: {reason}. Nothing was left under that name that was not there before. "
        "Free space there, or name another place with --to DIRECTORY."
    )


def sync_directory(directory: Path) -> None:
    """Makes a rename in `directory` survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _create(path: Path) -> h5py.File:
    # v110: metadata with checksums, readable by HDF5 1.10 and newer. No lock: nobody else knows this name.
    return h5py.File(
        path,
        "w",
        libver=("v110", "v110"),
        locking=False,
        alignment_threshold=ALIGNMENT_BYTES,
        alignment_interval=ALIGNMENT_BYTES,
    )


def _write_array(path: Path, file: h5py.File, name: str, column: Column) -> None:
    native = column.dtype.newbyteorder("=")
    dataset = file.create_dataset(name, column.shape, native, track_times=False)
    dataset.attrs.update(column.attrs)
    sha256, row = hashlib.sha256(), 0
    for block in column.blocks():
        block = np.ascontiguousarray(block, native)
        if column.name == "y" and len(column.shape) == 1 and native.kind == "f" and np.isnan(block).any():
            bad = row + int(np.isnan(block).argmax())
            raise DataFileError(
                f"{path}: label y of row {bad} is NaN. Drop that sample, or store a number that your loss "
                "ignores."
            )
        dataset[row : row + len(block)] = block
        sha256.update(block.reshape(-1).view(np.uint8).data)
        row += len(block)
    if row != (column.shape[0] if column.shape else 0):
        raise DataFileError(
            f"{path}: {name} gave {row} rows, expected {column.shape[0]}: the source changed while it was "
            "packed. Pack again."
        )
    dataset.attrs["sha256"] = sha256.hexdigest()
