"""Samples that share steps of one source, such as windows of one recording: no two splits may have them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .errors import DataFileError
from .groups import hash_of_group

SOURCE, SPAN = "source", "span"  # fields: the series of a sample, and its first and last step in it


def number_of_source(name: str) -> np.int64:
    """What stands for a name in the file: the same in every file."""
    return np.int64(int(hash_of_group(name), 16) >> 1)


def refuse_overlap(
    where: str, source: np.ndarray, span: np.ndarray, splits: Mapping[str, np.ndarray]
) -> None:
    """Raises DataFileError when samples of two splits share a step of one source.

    Args:
        source: (N,) whole numbers.
        span: (N, 2) the first and the last step of each sample.
        splits: the rows of each.
    """
    if source.shape != span.shape[:1] or span.shape[1:] != (2,) or (span[:, 0] > span[:, 1]).any():
        raise DataFileError(
            f"{where}: source and span of a sample are a number or a name, and (first, last); found the "
            f"shapes {[*source.shape[1:]]} and {[*span.shape[1:]]}, or a last step before the first."
        )
    steps, place = np.unique(span, return_inverse=True)
    number = np.unique(source, return_inverse=True)[1] * len(steps)
    first, last = (
        number[:, None] + place.reshape(span.shape)
    ).T  # sources lie one behind the other
    names = [*splits]
    split_of = np.full(len(source), -1)
    for i, rows in enumerate(splits.values()):
        split_of[rows] = i
    order = np.lexsort((last, first))
    order = order[split_of[order] >= 0]
    for i, name in enumerate(names):
        is_here = split_of[order] == i
        reached = np.maximum.accumulate(np.where(is_here, last[order], -1))
        shared = np.flatnonzero(~is_here & (reached >= first[order]))
        if not shared.size:
            continue
        row = order[shared[0]]
        other = order[np.flatnonzero(is_here & (last[order] == reached[shared[0]]))[0]]
        raise DataFileError(
            f"{where}: {len(shared)} samples begin within samples of {name}, and are in another split, such as "
            f"{span[row, 0]} to {span[row, 1]} of one source in {names[split_of[row]]}, and "
            f"{span[other, 0]} to {span[other, 1]} in {name}. Give samples a `split` that leaves a gap as long as a "
            "sample between two splits, or a `group`, which stays in one split and fold."
        )
