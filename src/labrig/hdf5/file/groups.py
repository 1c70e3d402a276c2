"""Samples that belong together, such as the windows of one recording: no two splits may share them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import DataFileError
from .layout import GROUP, Layout

GROUPS = (
    "groups"  # attribute of a file: a JSON list with the hash of each group's name, by its number
)
FORMS = "group_forms"  # the same of what all spellings of a name have in common
HASH_DIGITS = 16  # 100,000 groups share one with a chance of 3e-10


@dataclass(frozen=True)
class KnownGroups:
    """Groups that have the numbers 0, 1, 2 … already.

    Args:
        hashes: of their names.
        forms: of what all spellings of each name have in common.
        splits: of the hash of each group that has any.
    """

    hashes: Sequence[str] = ()
    forms: Sequence[str] = ()
    splits: dict[str, set[str]] = field(default_factory=dict)


def group_name(group: Any) -> str:
    """The name of a group: the same for the text 7 of a CSV, and the numbers 7 and 7.0 of an array."""
    is_whole = isinstance(group, float | np.floating) and float(group).is_integer()
    return str(int(group) if is_whole else group)


def hash_of_group(name: str) -> str:
    """What a file keeps of a name, which may be that of a patient."""
    return hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:HASH_DIGITS]


def group_hashes(layout: Layout) -> list[str] | None:
    """The hashes of the groups of all files by their numbers; None when a file does not have them, or
    numbers its groups otherwise.
    """
    lists = [_hashes_in(part, GROUPS) for part in layout.parts]
    longest = max(lists, key=len)
    same = all(hashes and hashes == longest[: len(hashes)] for hashes in lists)
    return longest if same else None


def _hashes_in(part: Layout, attribute: str) -> list[str]:
    """Those of one file; none where it does not say which group each number is."""
    try:
        hashes = json.loads(part.attrs[attribute])
        last = int(part.map(part.field(GROUP)).max())
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return hashes if isinstance(hashes, list) and last < len(hashes) else []


def groups_of_splits(layout: Layout) -> tuple[int, dict[str, int]] | None:
    """How many groups there are, and how many each split has; None as `group_hashes`."""
    hashes = group_hashes(layout)
    if hashes is None:
        return None
    numbers = layout.map(layout.field(GROUP))
    return len(hashes), {
        split: len(np.unique(numbers[layout.map(rows)])) for split, rows in layout.splits.items()
    }


def known_groups(layout: Layout) -> KnownGroups | None:
    """The groups of a data set with the splits of their samples; None as `group_hashes`."""
    hashes = group_hashes(layout)
    if hashes is None:
        return None
    numbers = layout.map(layout.field(GROUP))
    forms = max((_hashes_in(part, FORMS) for part in layout.parts), key=len)
    known = KnownGroups(hashes, forms)
    for split, rows in layout.splits.items():
        for number in np.unique(numbers[layout.map(rows)]).tolist():
            known.splits.setdefault(hashes[number], set()).add(split)
    return known


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
