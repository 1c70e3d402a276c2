"""The arrays that a data file is made of, in blocks of rows that fit into memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..file.errors import DataFileError
from ..file.joined import JoinedRows
from ..file.layout import BLOCK_BYTES, OFFSETS, check_type
from ..file.names import check_is_text


@dataclass(frozen=True)
class RaggedField:
    """A field whose samples vary in length: the one-dimensional `sample(i)` has `lengths[i]` values."""

    dtype: np.dtype
    lengths: np.ndarray
    sample: Callable[[int], np.ndarray]

    def __len__(self) -> int:
        return len(self.lengths)


# an array (N, ...), which may be a memory map, or several, one after another
Field = np.ndarray | JoinedRows | RaggedField


@dataclass(frozen=True)
class Column:
    """One array to write; `blocks` are its rows from first to last, about BLOCK_BYTES each."""

    dtype: np.dtype
    shape: tuple[int, ...]
    blocks: Iterable[np.ndarray]

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def count_samples(path: Path, fields: Mapping[str, Field]) -> int:
    """How many samples these fields have."""
    lengths = {}
    for name, field in fields.items():
        _check_field(f"{path}: field {name!r}", name, field, fields)
        lengths[name] = len(field)
    if not any(lengths.values()):
        raise DataFileError(
            f"{path}: no samples to write, expected at least one. Check the source."
        )
    if len(set(lengths.values())) > 1:
        raise DataFileError(
            f"{path}: the fields differ in number of samples: {lengths}. Give each a row for a sample."
        )
    return next(iter(lengths.values()))


def check_name(where: str, name: str) -> None:
    """Raises DataFileError unless `name` can be the name of a field: no slashes, for example."""
    if not isinstance(name, str) or not name.isidentifier():
        raise DataFileError(
            f"{where}: a field's name has letters, digits and _ only, and no digit in front. "
            "Rename it."
        )
    check_is_text(where, name, "field")


def _check_field(where: str, name: str, field: Field, fields: Mapping[str, Field]) -> None:
    check_name(where, name)
    base = name.removesuffix(OFFSETS)
    if base != name and base in fields:
        raise DataFileError(f"{where}: this is the name of the offsets of {base!r}. Use another.")
    if isinstance(field, np.ndarray) and field.ndim == 0:
        raise DataFileError(f"{where} is a single value, expected one row per sample.")
    check_type(where, field.dtype.newbyteorder("="))


def columns_of(name: str, field: Field, order: np.ndarray | None) -> dict[str, Column]:
    """The arrays of one field by their names, its samples in `order` (None: as they come)."""
    if isinstance(field, RaggedField):
        return _ragged_columns(name, field, order)
    return {name: Column(field.dtype, field.shape, _blocks(field, order))}


def _blocks(values: np.ndarray | JoinedRows, order: np.ndarray | None) -> Iterator[np.ndarray]:
    step = max(1, BLOCK_BYTES * len(values) // max(1, values.nbytes))
    for start in range(0, len(values), step):
        if order is None:
            yield values[start : start + step]
        else:
            yield values.take(order[start : start + step], 0)


def _ragged_columns(name: str, field: RaggedField, order: np.ndarray | None) -> dict[str, Column]:
    rows = np.arange(len(field)) if order is None else order
    offsets = np.concatenate([[0], np.cumsum(field.lengths[rows])]).astype(np.int64)
    return {
        name: Column(field.dtype, (int(offsets[-1]),), _ragged_blocks(field, rows, offsets)),
        name + OFFSETS: Column(offsets.dtype, offsets.shape, [offsets]),
    }


def _ragged_blocks(
    field: RaggedField, rows: np.ndarray, offsets: np.ndarray
) -> Iterator[np.ndarray]:
    block_of_row = offsets[:-1] * field.dtype.itemsize // BLOCK_BYTES
    starts = np.flatnonzero(np.diff(block_of_row)) + 1
    for rows_of_block in np.split(rows, starts):
        yield np.concatenate([field.sample(row) for row in rows_of_block])
