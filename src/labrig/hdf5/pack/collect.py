"""The fields of a data file: whole arrays, or samples that come one at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from ..file.atomic_file import explain_write_errors
from ..file.errors import DataFileError
from ..file.joined import JoinedRows
from ..file.layout import BLOCK_BYTES, OFFSETS, check_type
from ..file.names import check_is_text

NOT_FIELDS = ("key", "split", "group")  # they decide where a sample goes, and are not stored


@dataclass(frozen=True)
class RaggedField:
    """A field whose samples vary in length: the one-dimensional `sample(i)` has `lengths[i]` values."""

    dtype: np.dtype
    lengths: np.ndarray
    sample: Callable[[int], np.ndarray]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        return int(self.lengths.sum()) * self.dtype.itemsize

    @classmethod
    def of(cls, values: np.ndarray | JoinedRows, lengths: np.ndarray) -> Self:
        """Of samples that lie in `values` one after another."""
        ends = lengths.cumsum()
        return cls(
            values.dtype, lengths, lambda i: values[int(ends[i] - lengths[i]) : int(ends[i])]
        )


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
        where = f"{path}: field {name!r}"
        check_name(where, name)
        base = name.removesuffix(OFFSETS)
        if base != name and base in fields:
            raise DataFileError(
                f"{where}: this is the name of the offsets of {base!r}. Use another."
            )
        if isinstance(field, np.ndarray) and field.ndim == 0:
            raise DataFileError(f"{where} is a single value, expected one row per sample.")
        check_type(where, field.dtype.newbyteorder("="))
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


def columns_of(name: str, field: Field, order: np.ndarray | None) -> dict[str, Column]:
    """The arrays of one field by their names, its samples in `order` (None: as they come)."""
    if not isinstance(field, RaggedField):
        return {name: Column(field.dtype, field.shape, blocks_of(field, order))}
    rows = np.arange(len(field)) if order is None else order
    offsets = np.concatenate([[0], np.cumsum(field.lengths[rows])]).astype(np.int64)
    block_of_row = offsets[:-1] * field.dtype.itemsize // BLOCK_BYTES
    rows_of_blocks = np.split(rows, np.flatnonzero(np.diff(block_of_row)) + 1)
    blocks = (np.concatenate([field.sample(row) for row in rows]) for rows in rows_of_blocks)
    return {
        name: Column(field.dtype, (int(offsets[-1]),), blocks),
        name + OFFSETS: Column(offsets.dtype, offsets.shape, [offsets]),
    }


def blocks_of(values: Any, order: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """The rows of an array, or of a data set of h5py, in `order`; about BLOCK_BYTES at once."""
    step = max(1, BLOCK_BYTES * len(values) // max(1, values.nbytes))
    for start in range(0, len(values), step):
        if order is None:
            yield values[start : start + step]
        else:
            yield values.take(order[start : start + step], 0)


# Samples that come one at a time, each field in a temporary file


def collect_fields(
    path: Path,
    directory: Path,
    samples: Iterable[Mapping[str, Any]],
    *,
    on_sample: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ragged: Collection[str] = (),
    last_file: Callable[[], str] = str,
) -> dict[str, Field]:
    """The fields of `samples` (see `H5DataModule.samples`), as memory maps of files in `directory`.

    One-dimensional fields that differ in length become ragged. Memory holds one sample and a few
    numbers for each, however large the source is.

    Args:
        path: the data file they are for, to name it in errors.
        ragged: fields that are ragged even if all samples have one length.
        last_file: says behind the name of a sample where it comes from; "" when nobody knows.
    """
    with Collector(path, directory) as collector:
        for i, sample in enumerate(samples):
            values = {
                name: np.asarray(value, object if np.ma.is_masked(value) else None)[None]
                for name, value in sample.items()
                if name not in NOT_FIELDS
            }
            collector.add_batch(f"{path}: sample {sample.get('key', i)}{last_file()}", values)
            on_sample(sample)
    return collector.fields(ragged)


class Collector:
    """Writes each field of samples that come bit by bit into a file of `directory`; a context manager.

    Args:
        path: the data file they are for, to name it in errors.
    """

    def __init__(self, path: Path, directory: Path) -> None:
        self.path = path
        self.directory = directory
        self._files = ExitStack()
        self._collected: dict[str, _CollectedField] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with explain_write_errors(self.path):
            self._files.close()

    def add_batch(self, where: str, values: Mapping[str, np.ndarray | list[np.ndarray]]) -> None:
        """Takes the values of some samples: each an array (B, ...), or a list of B arrays."""
        if not self._collected:
            for name, value in values.items():
                check_name(f"{where}: field {name!r}", name)  # it becomes a file's name
                first = value[0] if isinstance(value, list) else value
                with explain_write_errors(self.path):
                    file = open(self.directory / name, "wb", BLOCK_BYTES)  # noqa: SIM115
                    self._files.enter_context(file)
                self._collected[name] = _CollectedField(file, first.dtype, np.shape(value[0]))
        if values.keys() != self._collected.keys():
            raise DataFileError(
                f"{where} has the fields {[*values]}, others have {[*self._collected]}. "
                "Give all samples the same."
            )
        with explain_write_errors(self.path):
            for name, value in values.items():
                batches = [item[None] for item in value] if isinstance(value, list) else [value]
                for batch in batches:
                    self._collected[name].extend(f"{where}: {name!r}", batch)

    def fields(self, ragged: Collection[str] = ()) -> dict[str, Field]:
        """The fields as memory maps, once all files are closed."""
        return {name: field.mapped(name in ragged) for name, field in self._collected.items()}


class _CollectedField:
    """One field of the samples so far, in `file`; all have the type and shape of the first."""

    def __init__(self, file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.file = file
        self.dtype = dtype
        self.shape = shape
        self.lengths: list[int] = []

    def extend(self, where: str, values: np.ndarray) -> None:
        """Writes the values (B, ...) of some samples."""
        shape = values.shape[1:]
        fits = shape == self.shape or len(shape) == len(self.shape) == 1
        if values.dtype.kind not in "biufc" or values.dtype != self.dtype or not fits:
            raise DataFileError(self._misfit(where, values))
        self.lengths += [values[0].size] * len(values)
        self.file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def _misfit(self, where: str, values: np.ndarray) -> str:
        """The message for values that do not go with the first ones."""
        shape = values.shape[1:]
        description = f"{where} is {values.dtype} {list(shape)}"
        if values.dtype.kind not in "biufc":
            return f"{description}. Convert it to numbers; a mask is not kept, so fill it."
        expected = f"{description}, expected {self.dtype} {list(self.shape)} as the first."
        if values.dtype != self.dtype:
            return f"{expected} Convert all to one type."
        if self.dtype == np.uint8 and len(shape) == 3:
            return (
                f"{expected} Give all images one size: --as images --size HEIGHT WIDTH does it, samples() of "
                "your own has to. Or keep them as they are, to be sized when they are read: --as encoded"
            )
        return f"{expected} Only fields of one dimension may vary in length: give all samples one shape."

    def mapped(self, ragged: bool) -> Field:
        lengths = np.array(self.lengths)
        values = np.empty(0, self.dtype)
        if lengths.any():
            values = np.asarray(np.memmap(self.file.name, self.dtype, "r"))
        if not ragged and len(set(self.lengths)) == 1:
            return values.reshape(len(lengths), *self.shape)
        return RaggedField.of(values, lengths)
