"""Puts the samples of several data files, such as the parts of several processes, into one order."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..file.errors import DataFileError
from ..file.layout import OFFSETS, Layout
from .collect import Field, RaggedField

MAX_CLASSES = 256  # different values of a mask of classes; one with more numbers its objects
ROW = "row"  # the field that says where each sample belongs


def merge_parts(parts: Sequence[Layout], directory: Path) -> dict[str, Field]:
    """The fields of all parts, their samples sorted by the field `row`.

    Args:
        directory: takes a file for each field; it must outlive the fields.
    """
    rows = np.concatenate([part.map(part.field(ROW)) for part in parts])
    order = rows.argsort()
    doubled = np.flatnonzero(np.diff(rows[order]) == 0)
    if doubled.size:
        raise DataFileError(
            f"{parts[0].path.parent}: row {rows[order][doubled[0]]} came twice. "
            "Predict on one process: trainer.devices=1"
        )
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1:
        raise DataFileError(
            f"{parts[0].path.parent}: the processes gave different fields or types: "
            + "; ".join(sorted(map(str, kinds)))
            + ". Give the same from predict_step on each."
        )
    merged: dict[str, Field] = {ROW: rows[order]}
    for name in parts[0].fields:
        if name != ROW:
            merged[name] = _merge_field(parts, name, order, directory / name)
    return merged


def _kind(part: Layout) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(array.dtype)) for name, array in part.fields.items())


def _merge_field(parts: Sequence[Layout], name: str, order: np.ndarray, file: Path) -> Field:
    shapes = {part.field(name).shape[1:] for part in parts}
    if not any(part.is_ragged(name) for part in parts) and len(shapes) == 1:
        return _merge_arrays(parts, name, order, file)
    if any(len(shape) > 1 for shape in shapes):
        raise DataFileError(
            f"{file.parent}: the processes gave {name!r} in the shapes {sorted(shapes)}. "
            "Only fields of one dimension may vary in length."
        )
    return _merge_ragged(parts, name, order)


def _merge_arrays(parts: Sequence[Layout], name: str, order: np.ndarray, file: Path) -> np.ndarray:
    place_of = np.empty_like(order)
    place_of[order] = np.arange(len(order))
    first = parts[0].field(name)
    shape = (len(order), *first.shape[1:])
    if 0 in shape:
        return np.empty(shape, first.dtype)
    merged = np.memmap(file, first.dtype, "w+", shape=shape)
    start = 0
    for part in parts:
        values = part.map(part.field(name))
        merged[place_of[start : start + len(values)]] = values
        start += len(values)
    return merged


def _merge_ragged(parts: Sequence[Layout], name: str, order: np.ndarray) -> RaggedField:
    samples = [_Samples(part, name) for part in parts]
    n_of_part = [len(part.lengths) for part in samples]
    part_of = np.repeat(np.arange(len(parts)), n_of_part)[order]
    place_in_part = np.concatenate([np.arange(n) for n in n_of_part])[order]
    lengths = np.concatenate([part.lengths for part in samples])[order]
    return RaggedField(
        parts[0].field(name).dtype,
        lengths,
        lambda i: samples[part_of[i]].sample(place_in_part[i]),
    )


class _Samples:
    """A field of one part, sample by sample, whether all of them have one length or not."""

    def __init__(self, part: Layout, name: str) -> None:
        values = part.map(part.field(name))
        if part.is_ragged(name):
            self.offsets = part.map(part.arrays[name + OFFSETS])
        else:
            self.offsets = np.arange(len(values) + 1) * values.shape[1]
        self.values = values.reshape(-1)
        self.lengths = np.diff(self.offsets)

    def sample(self, i: int) -> np.ndarray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]


def values_of_all(parts: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, str]]:
    """The attributes of masks, from those of the parts in which they were read."""
    attrs = {}
    for name in parts[0]:
        lists = [
            json.loads(part[name]["values"]) for part in parts if "values" in part.get(name, {})
        ]
        different = sorted({value for values in lists for value in values})
        if len(lists) == len(parts) and len(different) <= MAX_CLASSES:
            attrs[name] = {"values": json.dumps(different)}
    return attrs
