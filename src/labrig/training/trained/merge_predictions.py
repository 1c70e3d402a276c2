"""Puts the predictions of several processes into the order of their rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...hdf5.file.errors import DataFileError
from ...hdf5.file.joined import JoinedRows
from ...hdf5.file.layout import OFFSETS, Layout
from ...hdf5.pack.collect import Field, RaggedField, blocks_of

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
