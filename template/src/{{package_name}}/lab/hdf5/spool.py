# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Packs samples that come one after the other: first to raw files beside the target, then into it in random
order. Memory holds one sample, one block, and a few numbers per sample, however large the source is."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .file_layout import require
from .split import Splitter
from .writer import BLOCK_BYTES, FULL, Column, cannot_write, joined, ragged_columns, rows_per_block, write_columns

NOT_FIELDS = ("key", "split", "group")


@dataclass
class Spooled:
    """A field on its way: values one after the other in `file`; shape (-1,) when the samples' lengths
    differ."""

    dtype: np.dtype
    shape: tuple[int, ...]
    file: BinaryIO
    lengths: list[int] = field(default_factory=list)

    def append(self, where: str, value: np.ndarray) -> None:
        kind = f"of type {value.dtype} {list(value.shape)}, expected {self.dtype} {list(self.shape)}"
        numbers = value.dtype == self.dtype and value.dtype.kind in "biufc"
        require(numbers, f"{where} is {kind}. Convert it to numbers.")
        fits = value.shape == self.shape or (value.ndim == len(self.shape) == 1)
        require(fits, f"{where} is {kind}. Only 1-D fields may vary in length; give images a target --size.")
        if value.shape != self.shape:
            self.shape = (-1,)
        self.lengths.append(value.size)
        self.file.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def pack_samples(
    path: Path, samples: Iterable[Mapping[str, Any]], splitter: Splitter, attrs: Mapping[str, Any], **more: Any
) -> Path:
    """Writes `samples` to `path` in a seeded random order: dicts of arrays, and of "split" or "group" (see
    `H5DataModule.samples`). 1-D fields that differ in length become ragged. `attrs`: attributes per field; `more`: see
    `pack_maps`.

    Raises:
        DataFileError: samples that differ in fields, type or shape; and as `write`. Nothing is left behind.
    """
    directory = path.with_name(f".{path.name}.{os.getpid()}.spool")
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        maps = {}
        for name, one in _spool(path, directory, samples, splitter).items():
            values = np.memmap(one.file.name, one.dtype, "r") if sum(one.lengths) else np.empty(0, one.dtype)
            ragged = one.shape == (-1,) or attrs.get(name, {}).get("ragged")
            rows = len(one.lengths), *one.shape
            maps[name] = (np.asarray(values), np.array(one.lengths)) if ragged else values.reshape(rows)
        return pack_maps(path, maps, splitter, attrs, **more)
    except OSError as error:
        if error.errno in FULL:
            raise cannot_write(path, error) from error
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _spool(path: Path, directory: Path, samples: Iterable[Mapping[str, Any]], splitter: Splitter) -> dict[str, Spooled]:
    fields: dict[str, Spooled] = {}
    try:
        for i, sample in enumerate(samples):
            values = {name: np.asarray(value) for name, value in sample.items() if name not in NOT_FIELDS}
            for name, value in values.items() if i == 0 else ():
                fields[name] = Spooled(value.dtype, value.shape, (directory / name).open("wb", BLOCK_BYTES))
            where = f"{path}: sample {sample.get('key', i)}"
            same = values.keys() == fields.keys()
            require(same, f"{where} has the fields {[*values]}, others {[*fields]}.")
            for name, value in values.items():
                fields[name].append(f"{where}: {name!r}", value)
            splitter.add(sample)
    finally:
        for one in fields.values():
            one.file.close()
    return fields


def pack_maps(
    path: Path,
    maps: Mapping[str, Any],
    splitter: Splitter,
    attrs: Mapping[str, Any],
    provenance: Mapping[str, Any],
    last_check: Callable[[], None] = lambda: None,
) -> Path:
    """Writes arrays (N, ...), or (flat, lengths) of ragged fields, to `path`, rows in a seeded random order."""
    lengths = {name: len(values[1] if isinstance(values, tuple) else values) for name, values in maps.items()}
    require(len(set(lengths.values())) == 1, f"{path}: no samples, or not one number of them: {lengths}")
    order = splitter.order(next(iter(lengths.values())))
    columns = []
    for name, values in maps.items():
        columns += _shuffled(name, values, order, attrs.get(name, {}))
    facts = {"seed": splitter.seed} | dict(provenance)
    return write_columns(path, columns, splitter.splits(order), facts, last_check)


def _shuffled(name: str, values: Any, order: np.ndarray, attrs: Mapping[str, Any]) -> list[Column]:
    if isinstance(values, tuple):
        flat, lengths = values
        starts = np.cumsum(lengths) - lengths

        def pieces() -> Iterator[np.ndarray]:
            return joined(flat[starts[row] : starts[row] + lengths[row]] for row in order)

        return ragged_columns(name, flat.dtype, lengths[order], pieces, **attrs)
    rows, step = np.asarray(values), rows_per_block(values.dtype, values.shape)

    def blocks() -> Iterator[np.ndarray]:
        return (rows.take(order[start : start + step], 0) for start in range(0, len(order), step))

    return [Column(name, rows.dtype, rows.shape, blocks, attrs)]
