# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Writes a data file: checked first, streamed in blocks, hashed on the way, under a temporary name until complete."""

import errno
import hashlib
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from ..machine.disk import create_striped, require_free_space
from .file_layout import (
    BLOCK_BYTES,
    FORMAT,
    OFFSETS,
    VERSION,
    DataFileError,
    byte_progress,
    check_numbers,
    require,
)

ALIGNMENT_BYTES = 1 << 20  # fields from this size on begin at a whole stripe


@dataclass
class RaggedField:
    """A field whose samples vary in length: sample i is `sample(i)`, one-dimensional, `lengths[i]` values."""

    dtype: np.dtype
    lengths: np.ndarray
    sample: Callable[[int], np.ndarray]
    ndim = 1

    def __len__(self) -> int:
        return len(self.lengths)


class Column(NamedTuple):
    """One array to write; `blocks` gives it from first row to last, in pieces of about BLOCK_BYTES."""

    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Iterable[np.ndarray]


def write_data_file(
    path: str | Path, fields: Mapping[str, Any], splits: Mapping[str, Any], **provenance: Any
) -> Path:
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
    fields = {name: _as_field(f"{path}: field {name!r}", value) for name, value in fields.items()}
    return write_fields(Path(path), fields, lambda n: (None, splits), provenance, {})


def _as_field(where: str, value: Any) -> np.ndarray | RaggedField:
    if (
        isinstance(value, list | tuple)
        and len(value)
        and all(np.ndim(sample) == 1 for sample in value)
    ):
        samples = [np.asarray(sample) for sample in value]
        types = sorted({str(sample.dtype) for sample in samples})
        require(len(types) == 1, f"{where} mixes types {types}; convert its samples to one.")
        return RaggedField(
            samples[0].dtype, np.array([len(sample) for sample in samples]), samples.__getitem__
        )
    return np.asarray(value)


def write_fields(
    path: Path,
    fields: Mapping[str, np.ndarray | RaggedField],
    rows: Callable[[int], tuple[np.ndarray | None, Mapping[str, Any]]],
    provenance: Mapping[str, Any],
    attrs: Mapping[str, Mapping[str, Any]],
    last_check: Callable[[], None] = lambda: None,
) -> Path:
    """`write`, for fields that may be memory maps.

    Args:
        rows: told the number of samples, it gives their order in the file (None: as they come) and the splits.
        provenance, attrs: attributes of the file, and of each field.
        last_check: may raise to discard all, when everything is written but nothing has its final name.
    """
    import h5py  # here, so that a mistyped command is answered without it

    n = _number_of_samples(path, fields)
    order, splits = rows(n)
    columns = {}
    for name, value in fields.items():
        columns |= _columns(f"data/{name}", value, range(n) if order is None else order)
    for name, split in _checked_splits(path, splits, n).items():
        columns[f"splits/{name}"] = Column(split.dtype, split.shape, [split])
    needed = sum(
        int(np.prod(column.shape, dtype=np.int64)) * column.dtype.itemsize
        for column in columns.values()
    )
    origin = {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(sys.argv),
        "host": socket.gethostname(),
        "packages": f"python=={sys.version.split()[0]} h5py=={h5py.__version__} numpy=={np.__version__}",
    }
    with (
        temporary_directory_beside(path) as scratch,
        cannot_be_written(path),
        byte_progress(f"writing {path.name}", needed) as bar,
    ):
        require_free_space(path.parent, needed)
        temporary = Path(scratch) / path.name
        create_striped(temporary)
        # v110: checksums on metadata, read by HDF5 1.10 and newer. No lock: nobody else knows this name.
        at = {"alignment_threshold": ALIGNMENT_BYTES, "alignment_interval": ALIGNMENT_BYTES}
        with h5py.File(temporary, "w", libver=("v110", "v110"), locking=False, **at) as file:
            file.require_group("splits")
            file.attrs.update(
                {"format": FORMAT, "version": VERSION, "n": n} | origin | dict(provenance)
            )
            for name, column in columns.items():
                _write_array(path, file, name, column, bar)
            for name in fields:
                file[f"data/{name}"].attrs.update(attrs.get(name, {}))
            last_check()
            file.attrs["complete"] = 1
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)  # makes the rename survive a power cut
        os.close(directory)
    return path


def _number_of_samples(path: Path, fields: Mapping[str, np.ndarray | RaggedField]) -> int:
    """N, when these `fields` can be written together."""
    lengths = {}
    for name, value in fields.items():
        where = f"{path}: field {name!r}"
        require(name.isidentifier(), f"{where}: a name has letters, digits and _ only.")
        taken = name.endswith(OFFSETS) and name.removesuffix(OFFSETS) in fields
        require(
            not taken,
            f"{where}: this is the name of the offsets of {name.removesuffix(OFFSETS)!r}. Use another.",
        )
        require(value.ndim, f"{where} is a single value, expected one row per sample.")
        check_numbers(where, value.dtype.newbyteorder("="))
        lengths[name] = len(value)
    require(
        any(lengths.values()),
        f"{path}: no samples to write, expected at least one. Check the source.",
    )
    require(
        len(set(lengths.values())) == 1,
        f"{path}: the fields differ in number of samples: {lengths}",
    )
    return next(iter(lengths.values()))


def _columns(
    name: str, value: np.ndarray | RaggedField, order: np.ndarray | range
) -> dict[str, Column]:
    if isinstance(value, RaggedField):
        offsets = np.concatenate([[0], np.cumsum(value.lengths[order])]).astype(np.int64)
        block_of = offsets[:-1] * value.dtype.itemsize // BLOCK_BYTES
        parts = np.split(order, np.flatnonzero(np.diff(block_of)) + 1)
        blocks = (np.concatenate([value.sample(row) for row in rows]) for rows in parts)
        flat = Column(value.dtype, (int(offsets[-1]),), blocks)
        return {name: flat, name + OFFSETS: Column(offsets.dtype, offsets.shape, [offsets])}
    step = max(1, BLOCK_BYTES * len(value) // max(1, value.nbytes))
    parts = (order[start : start + step] for start in range(0, len(value), step))
    blocks = (
        value[rows.start : rows.stop] if isinstance(rows, range) else value.take(rows, 0)
        for rows in parts
    )
    return {name: Column(value.dtype, value.shape, blocks)}


def _checked_splits(path: Path, splits: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    rows_of: dict[str, np.ndarray] = {}
    for name, rows in splits.items():
        rows, where = np.asarray(rows), f"{path}: split {name!r}"
        integers = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        require(
            integers, f"{where} must list row numbers, found {rows.dtype} of shape {rows.shape}."
        )
        rows = rows_of[name] = np.sort(rows.astype(np.int64))
        outside = rows.size and not 0 <= rows[0] <= rows[-1] < n
        require(
            not outside, f"{where} has rows {rows[:1]}..{rows[-1:]}, there are samples 0..{n - 1}."
        )
    together = np.sort(np.concatenate([np.empty(0, np.int64), *rows_of.values()]))
    for row in together[1:][together[1:] == together[:-1]][:1]:
        owners = " and ".join(
            repr(name) for name, rows in rows_of.items() for _ in range((rows == row).sum())
        )
        raise DataFileError(
            f"{path}: row {row} is named twice, by split {owners}; no row may be in two."
        )
    return rows_of


def _write_array(path: Path, file: Any, name: str, column: Column, bar: tqdm) -> None:
    native = column.dtype.newbyteorder("=")
    dataset = file.create_dataset(name, column.shape, native, track_times=False)
    sha256, row = hashlib.sha256(), 0
    for block in column.blocks:
        block = np.ascontiguousarray(block, native)
        if name == "data/y" and block.ndim == 1 and native.kind == "f" and np.isnan(block).any():
            raise DataFileError(
                f"{path}: label y of sample {row + np.isnan(block).argmax()} is NaN. Drop it."
            )
        dataset[row : row + len(block)] = block
        sha256.update(block.reshape(-1).view(np.uint8).data)
        row += len(block)
        bar.update(block.nbytes)
    changed = f"{row} rows of {name} came, {column.shape[0]} were expected"
    require(
        row == column.shape[0],
        f"{path}: {changed}: the source changed while it was packed. Pack again.",
    )
    dataset.attrs["sha256"] = sha256.hexdigest()


@contextmanager
def cannot_be_written(path: Path) -> Iterator[None]:
    """The answer to a full disk, a quota, a read-only place, a missing permission."""
    try:
        yield
    except (
        OSError,
        RuntimeError,
    ) as error:  # h5py closes a file on a full disk with a RuntimeError
        number = getattr(error, "errno", None) or int(
            (re.findall(r"errno = (\d+)", str(error)) or [0])[0]
        )
        reason = getattr(error, "strerror", None) or (os.strerror(number) if number else str(error))
        if number in (errno.ENOSPC, errno.EDQUOT):
            reason = f"the disk is full or over its quota ({reason})"
        kept = "What was under that name before is untouched. Free space, or use --to DIRECTORY."
        raise DataFileError(f"{path} cannot be written: {reason}. {kept}") from error


def temporary_directory_beside(path: Path) -> tempfile.TemporaryDirectory:
    """A directory beside `path` for what is not complete yet, removed at the end whatever happens."""
    with cannot_be_written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(
            prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True
        )
