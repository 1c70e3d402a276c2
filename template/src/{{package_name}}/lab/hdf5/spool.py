# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Packs samples that come one after the other: first to raw files beside the target, then into it in random order, each in
its split. Memory holds one sample, one block, and a few numbers per sample, however large the source is."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .file_layout import DataFileError, require
from .writer import BLOCK_BYTES, FULL, Column, cannot_write, joined, ragged_columns, rows_per_block, write_columns


@dataclass
class Splitter:
    """Told each sample, it gives the order of the rows and the rows of each split.

    A sample's own "split" wins, then the `given` file's line for its key, then its "group" (or what the
    expression `group` finds in its key): all samples of a group go to one side. Otherwise `ratios` of
    samples.
    """

    ratios: Mapping[str, float]
    seed: int = 0
    given: Mapping[str, str] | None = None
    group: str | None = None
    names: list[str] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)

    def add(self, sample: Mapping[str, Any]) -> None:
        key = str(sample.get("key", len(self.names) + len(self.groups)))
        if "split" in sample or self.given is not None:
            known = "split" in sample or key in self.given
            require(known, f"--split-file has no line for {key!r}; it needs one `sample,split` for each.")
            self.names.append(sample["split"] if "split" in sample else self.given[key])
        elif "group" in sample or self.group:
            found = None if "group" in sample else re.search(self.group, key)
            require("group" in sample or found, f"--group {self.group!r} finds nothing in {key!r}.")
            self.groups.append(sample["group"] if "group" in sample else found[found.lastindex or 0])

    def order(self, n: int) -> np.ndarray:
        """(n,) the seeded random order of the rows in the file."""
        return _permutation(n, self.seed, 1)

    def splits(self, order: np.ndarray) -> dict[str, np.ndarray]:
        """Split name -> sorted row numbers, after the rows were put in `order`."""
        names, groups, n = self.names, self.groups, len(order)
        whole = len(names) in (0, n) and len(groups) in (0, n)
        require(whole, f"only {len(names) or len(groups)} of {n} samples say their split or group; all must.")
        if names:
            return {name: np.flatnonzero(np.array(names)[order] == name) for name in dict.fromkeys(names)}
        if groups:
            number_of = {group: i for i, group in enumerate(dict.fromkeys(groups))}
            members = np.array([number_of[group] for group in groups])[order]
            sides = _by_ratio(len(number_of), self.ratios, self.seed)
            return {name: np.flatnonzero(np.isin(members, side)) for name, side in sides.items()}
        return _by_ratio(n, self.ratios, self.seed)


def _permutation(n: int, *entropy: int) -> np.ndarray:
    return np.random.PCG64([*entropy, n]).random_raw(n).argsort(kind="stable")


def _by_ratio(n: int, ratios: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """A split whose share rounds to nothing is left out; of one sample, the first split gets it."""
    cuts = np.rint(np.cumsum(list(ratios.values())) * n).astype(int)
    cuts[0], cuts[-1] = max(cuts[0], 1), n
    parts = np.split(_permutation(n, seed), cuts[:-1])
    return {name: np.sort(part) for name, part in zip(ratios, parts, strict=True) if len(part)}


def parse_ratios(text: str) -> dict[str, float]:
    """`train=0.8,val=0.1,test=0.1` as a dict of shares that add up to one.

    Raises:
        DataFileError: not of that form.
    """
    try:
        ratios = {name.strip(): float(ratio) for name, ratio in (part.split("=") for part in text.split(","))}
    except ValueError as error:
        raise DataFileError(f"--split {text!r}: expected such as train=0.8,val=0.2") from error
    sums = min(ratios.values()) > 0 and abs(sum(ratios.values()) - 1) < 1e-6
    require(sums, f"--split {text!r}: the shares must be above 0 and add up to 1.")
    return ratios


def read_split_file(path: Path) -> dict[str, str]:
    """Lines `sample,split` (sample: path below the source, or row number) as a dict.

    Raises:
        DataFileError: a line of another form, or a sample twice.
    """
    given: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        key, comma, split = line.rpartition(",")
        fine = comma and split.strip() and key.strip() not in given
        require(fine, f"{path}:{number}: expected `sample,split`, each sample once; found {line!r}")
        given[key.strip()] = split.strip()
    return given


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
