"""The fields of a data file: whole arrays, or samples that come one at a time. What is worth a word about them.

These words cost 3 to 7 % of the packing: each block is looked at while it is in the cache, and only samples
with equal keys are read again. Memory holds a key of 8 bytes for each sample.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from ..file.atomic_file import explain_write_errors
from ..file.errors import DataFileError
from ..file.joined import JoinedRows
from ..file.layout import BLOCK_BYTES, OFFSETS, TIME, Layout, check_type
from ..file.names import check_is_text

NOT_FIELDS = ("key", "split", "group")  # they decide where a sample goes, and are not stored
LABEL = "y"
WORD_BYTES = 8
ALL_WORDS = 128  # samples of up to so many words are looked at as a whole
PROBES = 32  # words, at random places, of larger samples
MAX_TOLD = 6  # pairs of splits


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


class Findings:
    """Looks at each block of `fields` as it is written; then `tell` prints what it found.

    Args:
        order: (N,) the samples in the order of the file; None: as they come.
    """

    def __init__(self, fields: Mapping[str, Field], order: np.ndarray | None) -> None:
        self.n_bad: Counter[str] = Counter()  # field -> samples with NaN or inf
        # two samples are equal by their x, else by their largest field that is no label
        inputs = [name for name in fields if name not in (LABEL, TIME)] or [*fields]
        largest = max(inputs, key=lambda name: fields[name].nbytes)
        self.compared = "x" if "x" in fields else largest
        self.n_seen = dict.fromkeys(fields, 0)  # samples
        self.offsets = {
            name: np.cumsum(np.append(0, field.lengths if order is None else field.lengths[order]))
            for name, field in fields.items()
            if isinstance(field, RaggedField)
        }
        self.keys = np.zeros(len(fields[self.compared]), np.uint64)

    def look_at(self, name: str, block: np.ndarray) -> None:
        """Takes the next samples of a field, all of each: (B, ...), or joined if they vary in length."""
        if name not in self.n_seen or not block.size:  # offsets, or nothing to look at
            return
        first, offsets = self.n_seen[name], self.offsets.get(name)
        starts = np.arange(len(block))  # of each sample, in the block
        if offsets is not None:
            stop = np.searchsorted(offsets, offsets[first] + len(block), "right") - 1
            starts = offsets[first:stop] - offsets[first]
        self.n_seen[name] = first + len(starts)
        if not _is_finite(block):
            is_bad = ~np.isfinite(block).reshape(len(block), -1).all(1)
            samples = np.searchsorted(starts, np.flatnonzero(is_bad), "right")
            self.n_bad[name] += len(np.unique(samples))
        if name == self.compared:
            keys = _keys(block) if offsets is None else _ragged_keys(block, starts)
            self.keys[first : first + len(starts)] = keys

    def tell(self, layout: Layout) -> None:
        """Prints a line for each finding; nothing is refused.

        Args:
            layout: of the file that was written.
        """
        lines = [
            f"{n_bad} of {layout.n_samples} samples have NaN or inf in field {name}"
            for name, n_bad in self.n_bad.items()
        ]
        for line in [*lines, *islice(self._equal_samples(layout), MAX_TOLD)]:
            print(f"lab: {line}", file=sys.stderr)

    def _equal_samples(self, layout: Layout) -> Iterator[str]:
        """A line for each two splits that share samples, the smaller one first."""
        if len(layout.splits) < 2:
            return
        ordered = np.sort(self.keys)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        rows = np.flatnonzero(np.isin(self.keys, repeated[repeated != 0]))  # 0: without a value
        if not rows.size:
            return
        _, samples = np.unique(_digests(layout, self.compared, rows), return_inverse=True)
        samples_of = {
            name: samples[np.isin(rows, layout.map(split), assume_unique=True)]
            for name, split in layout.splits.items()
        }
        by_size = sorted(samples_of, key=lambda name: layout.splits[name].n_rows)
        for small, large in combinations(by_size, 2):
            n_equal = int(np.isin(samples_of[small], samples_of[large]).sum())
            if n_equal:
                n_samples = layout.splits[small].n_rows
                yield (
                    f"{n_equal} of {n_samples} samples of {small} are in {large} too: "
                    f"their field {self.compared} is equal"
                )


def _is_finite(values: np.ndarray) -> bool:
    if values.dtype.kind not in "fc":
        return True
    if values.itemsize > 2:
        flat = values.reshape(-1)
        if np.isfinite(np.vdot(flat, flat)):  # three times as fast as to look at each value
            return True
    return bool(np.isfinite(values).all())


def _keys(block: np.ndarray) -> np.ndarray:
    """A key (B,) for each sample of (B, ...): its words, or some of them, by fixed random weights."""
    n = len(block)
    content = block.reshape(n, -1).view(np.uint8)
    n_words = content.shape[1] // WORD_BYTES
    words = content[:, : n_words * WORD_BYTES].view(np.uint64)
    if n_words > ALL_WORDS:
        words = words.take(_places(n_words), 1)
    rest = content[:, n_words * WORD_BYTES :].astype(np.uint64)
    return _weighted(words) + _weighted(rest) + np.uint64(1)


def _ragged_keys(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """A key for each sample of a block that joins them: its length, and values all over it."""
    lengths = np.diff(starts, append=len(block))
    places = np.linspace(0, 1, PROBES, endpoint=False)
    probed = starts[:, None] + (lengths[:, None] * places).astype(np.int64)
    values = block[np.minimum(probed, len(block) - 1)]
    return _keys(values) + lengths.astype(np.uint64)


@cache
def _places(n_words: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(n_words, PROBES, replace=False))


@cache
def _weights(n: int) -> np.ndarray:
    """Odd, so that no bit of a word is lost."""
    return np.random.default_rng(1).integers(2**63, size=n, dtype=np.uint64) * 2 + 1


def _weighted(words: np.ndarray) -> np.ndarray:
    return np.einsum("ij,j->i", words, _weights(words.shape[1]))


def _digests(layout: Layout, name: str, rows: np.ndarray) -> np.ndarray:
    """(B,) a hash of all bytes of each of these samples."""
    values = layout.map(layout.field(name))
    offsets = np.arange(len(values) + 1)
    if layout.is_ragged(name):
        offsets = layout.map(layout.arrays[name + OFFSETS])
    contents = (values[offsets[row] : offsets[row + 1]].tobytes() for row in rows)
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(b"".join(digests), np.uint64)
