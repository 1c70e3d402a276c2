# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Writes a data file: checked first, streamed in blocks, hashed on the way, under a temporary name until
complete."""

import errno
import hashlib
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tqdm import tqdm

from ..machine.node import stripe
from .file_layout import FORMAT, OFFSETS, VERSION, DataFileError, require

BLOCK_BYTES = 8 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)
ALIGNMENT_BYTES = 1 << 20  # fields from this size on begin at a whole stripe


@dataclass
class Column:
    """One array to write; `blocks()` gives it from first row to last, in pieces of about BLOCK_BYTES."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Callable[[], Iterator[np.ndarray]]
    attrs: Mapping[str, Any] = field(default_factory=dict)


def write(path: str | Path, fields: Mapping[str, Any], splits: Mapping[str, Any], **provenance: Any) -> Path:
    """Writes one data file; what was under that name is replaced only when all is on the disk.

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
    return write_columns(Path(path), columns, splits, provenance)


def write_columns(
    path: Path,
    columns: Sequence[Column],
    splits: Mapping[str, Any],
    provenance: Mapping[str, Any],
    last_check: Callable[[], None] = lambda: None,
) -> Path:
    """`write`, for arrays that come in blocks and need never be in memory as a whole. `last_check` may raise to
    discard all, when everything is written but nothing has its final name."""
    n = _number_of_samples(path, columns)
    columns = {f"data/{column.name}": column for column in columns}
    for name, rows in _checked_splits(path, splits, n).items():
        columns[f"splits/{name}"] = Column(name, rows.dtype, rows.shape, lambda rows=rows: iter([rows]))
    needed = sum(int(np.prod(column.shape, dtype=np.int64)) * column.dtype.itemsize for column in columns.values())
    bar = tqdm(total=needed, desc=f"writing {path.name}", unit="B", unit_scale=True, delay=1, leave=False, disable=None)
    with under_temporary_name(path, needed) as temporary, bar:
        stripe(temporary)
        # v110: checksums on metadata, read by HDF5 1.10 and newer. No lock: nobody else knows this name.
        at = {"alignment_threshold": ALIGNMENT_BYTES, "alignment_interval": ALIGNMENT_BYTES}
        with h5py.File(temporary, "w", libver=("v110", "v110"), locking=False, **at) as file:
            file.require_group("splits")
            file.attrs.update({"format": FORMAT, "version": VERSION, "n": n} | _origin() | dict(provenance))
            for name, column in columns.items():
                _write_array(path, file, name, column, bar)
            last_check()
            file.attrs["complete"] = 1
    return path


def _origin() -> dict[str, Any]:
    """What made the file."""
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(sys.argv),
        "host": socket.gethostname(),
        "packages": f"python=={sys.version.split()[0]} h5py=={h5py.__version__} numpy=={np.__version__}",
    }


def _columns(path: str | Path, name: str, value: Any) -> list[Column]:
    if isinstance(value, list | tuple) and len(value) and all(np.ndim(sample) == 1 for sample in value):
        samples = [np.asarray(sample) for sample in value]
        types = sorted({str(sample.dtype) for sample in samples})
        require(len(types) == 1, f"{path}: field {name!r} mixes types {types}; convert its samples to one.")
        lengths = np.array([len(sample) for sample in samples])
        return ragged_columns(name, samples[0].dtype, lengths, lambda: joined(samples))
    array = np.asarray(value)
    return [Column(name, array.dtype, array.shape, lambda: _slices(array))]


def ragged_columns(
    name: str, dtype: np.dtype, lengths: np.ndarray, blocks: Callable[[], Iterator[np.ndarray]], **attrs: Any
) -> list[Column]:
    """The flat array of a ragged field, and its offsets; `lengths` (N,) are those of its samples."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = Column(name, dtype, (int(offsets[-1]),), blocks, attrs)
    return [flat, Column(name + OFFSETS, offsets.dtype, offsets.shape, lambda: _slices(offsets))]


def rows_per_block(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """How many rows of an array of `shape` make about BLOCK_BYTES."""
    return max(1, BLOCK_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))))


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    step = rows_per_block(array.dtype, array.shape)
    return (array[start : start + step] for start in range(0, len(array), step))


def joined(samples: Sequence[np.ndarray] | Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """One-dimensional arrays, one after the other, in blocks."""
    pieces, n_bytes = [], 0
    for sample in samples:
        pieces.append(sample)
        n_bytes += sample.nbytes
        if n_bytes >= BLOCK_BYTES:
            yield np.concatenate(pieces)
            pieces, n_bytes = [], 0
    if pieces:
        yield np.concatenate(pieces)


def _number_of_samples(path: Path, columns: Sequence[Column]) -> int:
    names = {column.name for column in columns}
    require(len(names) == len(columns), f"{path}: two fields have one name: {[c.name for c in columns]}")
    lengths = {}
    for column in columns:
        where = f"{path}: field {column.name!r}"
        require(column.name.isidentifier(), f"{where}: a name has letters, digits and _ only.")
        require(column.shape, f"{where} is a single value, expected one row per sample.")
        most_bytes = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}.get(column.dtype.kind, 0)
        numbers = column.dtype.itemsize <= most_bytes
        kinds = "expected numbers of up to 64 bits; texts and images go into a ragged uint8 field"
        require(numbers, f"{where} has type {column.dtype}, {kinds}.")
        if column.name.removesuffix(OFFSETS) in names - {column.name}:
            lengths[column.name.removesuffix(OFFSETS)] = column.shape[0] - 1
        elif column.name + OFFSETS not in names:
            lengths[column.name] = column.shape[0]
    require(any(lengths.values()), f"{path}: no samples to write, expected at least one. Check the source.")
    require(len(set(lengths.values())) == 1, f"{path}: the fields differ in number of samples: {lengths}")
    return next(iter(lengths.values()))


def _checked_splits(path: Path, splits: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    owner, names, rows_of = np.full(n, -1), list(splits), {}
    for number, name in enumerate(names):
        rows, where = np.asarray(splits[name]), f"{path}: split {name!r}"
        integers = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        require(integers, f"{where} must list row numbers, found {rows.dtype} of shape {rows.shape}.")
        rows = rows_of[name] = np.sort(rows.astype(np.int64))
        outside = rows.size and not 0 <= rows[0] <= rows[-1] < n
        require(not outside, f"{where} has rows {rows[:1]}..{rows[-1:]}, there are samples 0..{n - 1}.")
        require((rows[1:] > rows[:-1]).all(), f"{where} names a row twice.")
        for row in rows[owner[rows] >= 0][:1]:
            raise DataFileError(f"{where} and {names[owner[row]]!r} share row {row}; no row may be in two.")
        owner[rows] = number
    return rows_of


@contextmanager
def under_temporary_name(path: Path, needed_bytes: int) -> Iterator[Path]:
    """A name beside `path`, synced and renamed to it at the end, removed when anything fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < needed_bytes:
            raise OSError(errno.ENOSPC, f"{needed_bytes / 1e6:.1f} MB needed, {free / 1e6:.1f} MB free")
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)  # makes the rename survive a power cut
        os.close(directory)
    except (OSError, RuntimeError) as error:  # h5py closes a file on a full disk with a RuntimeError
        raise cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: Exception) -> DataFileError:
    """The answer to a full disk, a quota, a read-only place, a missing permission."""
    number = getattr(error, "errno", None) or int((re.findall(r"errno = (\d+)", str(error)) or [0])[0])
    reason = os.strerror(number) if number else str(error)
    if number in FULL:
        reason = f"the disk is full or over its quota ({getattr(error, 'strerror', None) or reason})"
    kept = "What was under that name before is untouched"
    return DataFileError(f"{path} cannot be written: {reason}. {kept}. Free space, or use --to DIRECTORY.")


def _write_array(path: Path, file: h5py.File, name: str, column: Column, bar: tqdm) -> None:
    native = column.dtype.newbyteorder("=")
    dataset = file.create_dataset(name, column.shape, native, track_times=False)
    dataset.attrs.update(column.attrs)
    sha256, row = hashlib.sha256(), 0
    for block in column.blocks():
        block = np.ascontiguousarray(block, native)
        if column.name == "y" and block.ndim == 1 and native.kind == "f" and np.isnan(block).any():
            sample = row + np.isnan(block).argmax()
            raise DataFileError(f"{path}: label y of sample {sample} is NaN. Drop it.")
        dataset[row : row + len(block)] = block
        sha256.update(block.reshape(-1).view(np.uint8).data)
        row += len(block)
        bar.update(block.nbytes)
    changed = f"{row} rows of {column.name} came, {column.shape[0]} were expected"
    require(row == column.shape[0], f"{path}: {changed}: the source changed while it was packed. Pack again.")
    dataset.attrs["sha256"] = sha256.hexdigest()
