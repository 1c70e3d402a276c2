"""Predictions of several processes, in the order of their rows; and the mean of those of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import LabError
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.joined import JoinedRows
from ...hdf5.file.layout import OFFSETS, Layout
from ...hdf5.pack.collect import Field, RaggedField, blocks_of

if TYPE_CHECKING:
    import numpy as np

    from ...hdf5.file.layout import Layout


ROW = "row"  # the field that says where each sample belongs
START = "start"  # of windows the field that says where in its sample each begins


def merge_parts(parts: Sequence[Layout], directory: Path) -> dict[str, Field]:
    """The fields of all parts, their samples sorted by the field `row`; windows of a row by `start`.

    Args:
        directory: takes a file for each field; it must outlive the fields.
    """
    places = {
        name: np.concatenate([part.map(part.field(name)) for part in parts])
        for name in (ROW, START)
        if all(name in part.fields for part in parts)
    }
    order = np.lexsort([*reversed(places.values())])
    is_new = np.any([np.diff(place[order]) != 0 for place in places.values()], axis=0)
    doubled = np.flatnonzero(~is_new)
    if doubled.size:
        raise DataFileError(
            f"{parts[0].path.parent}: row {places[ROW][order][doubled[0]]} came twice. "
            "Predict on one process: trainer.devices=1"
        )
    kinds = {
        str([(name, str(array.dtype)) for name, array in part.fields.items()]) for part in parts
    }
    if len(kinds) > 1:
        raise DataFileError(
            f"{parts[0].path.parent}: the processes gave different fields or types: "
            f"{'; '.join(sorted(kinds))}. Give the same from predict_step on each."
        )
    merged: dict[str, Field] = {name: place[order] for name, place in places.items()}
    for name in parts[0].fields:
        if name not in places:
            merged[name] = _merge_field(parts, name, order, directory / name)
    return merged


def _merge_field(parts: Sequence[Layout], name: str, order: np.ndarray, file: Path) -> Field:
    shapes = {part.field(name).shape[1:] for part in parts}
    values = [part.map(part.field(name)) for part in parts]
    if not any(part.is_ragged(name) for part in parts) and len(shapes) == 1:
        joined = JoinedRows(values)
        if 0 in joined.shape:
            return np.empty(joined.shape, joined.dtype)
        merged = np.memmap(file, joined.dtype, "w+", shape=joined.shape)
        start = 0
        for block in blocks_of(joined, order):
            merged[start : start + len(block)] = block
            start += len(block)
        return merged
    if any(len(shape) > 1 for shape in shapes):
        raise DataFileError(
            f"{file.parent}: the processes gave {name!r} in the shapes {sorted(shapes)}. "
            "Only fields of one dimension may vary in length."
        )
    lengths_of_parts = [
        np.diff(part.map(part.arrays[name + OFFSETS]))
        if part.is_ragged(name)
        else np.full(len(of_part), of_part.shape[1])
        for part, of_part in zip(parts, values, strict=True)
    ]
    lengths = np.concatenate(lengths_of_parts)
    field = RaggedField.of(JoinedRows([each.reshape(-1) for each in values]), lengths)
    return RaggedField(field.dtype, lengths[order], lambda i: field.sample(order[i]))


def mean_of(files: Sequence[Layout]) -> dict[str, np.ndarray]:
    """The mean of each field of floats, in its type.

    A field of whole numbers has no mean. Where it is the place of the largest value of another field, in
    every file, it is so of the mean; else all files must have the same.
    """
    first = files[0]
    if any(file.fields.keys() != first.fields.keys() for file in files):
        raise LabError("the runs predict different fields. A mean needs the same of each")
    ragged = [name for name in first.fields if first.is_ragged(name)]
    if ragged:
        raise LabError(
            f"{', '.join(ragged)} varies in length, so it has no mean. Leave it out of predict_step"
        )
    values = {name: [file.map(file.field(name)) for file in files] for name in first.fields}
    for name, of_files in values.items():
        if any(one.shape != of_files[0].shape for one in of_files):
            raise LabError(
                f"the runs predict {name} in different shapes. A mean needs the same of each"
            )
    means: dict[str, Any] = {
        name: np.mean(of_files, axis=0, dtype=np.float64).astype(of_files[0].dtype)
        for name, of_files in values.items()
        if of_files[0].dtype.kind == "f"
    }
    for name in values.keys() - means.keys():
        scores = [each for each in means if is_largest(values[name], values[each])]
        if scores:
            means[name] = means[scores[0]].argmax(1).astype(values[name][0].dtype)
        elif all(np.array_equal(one, values[name][0]) for one in values[name]):
            means[name] = values[name][0]
        elif name in (ROW, START):
            raise LabError("the runs predicted other samples. Choose the same data and split=NAME")
        else:
            raise LabError(
                f"the runs differ in {name}, whole numbers that have no mean, and that are not the "
                "place of the largest of other values. Return scores from predict_step"
            )
    return {name: means[name] for name in values}


def is_largest(numbers: Sequence[np.ndarray], scores: Sequence[np.ndarray]) -> bool:
    """Whether each of these arrays (N,) is the place of the largest of the N rows of scores (N, C)."""
    return all(
        score.ndim == 2 and np.array_equal(number, score.argmax(1))
        for number, score in zip(numbers, scores, strict=True)
    )
