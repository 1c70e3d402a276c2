"""The mean of what several runs predict for the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import LabError
from ...hdf5.file.layout import Layout
from .merge_predictions import ROW, START


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
