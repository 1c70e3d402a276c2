"""Which rows of a data file each of k folds holds out, and a share of the training rows: the same for
every seed and every machine.
"""

from __future__ import annotations

import numpy as np

from ...errors import LabError
from ...machine.counted import counted
from ..file.groups import group_hashes
from ..file.layout import GROUP, Layout

DIVIDED = ("train", "val")  # the splits of a file that folds divide anew; test stays as it is


def check_fold(folds: int | None, fold: int | None) -> None:
    """Makes sure that both numbers fit together."""
    if folds is None and fold is None:
        return
    if folds is None:
        raise LabError(f"data.fold is {fold}, but data.folds is not set. Write: data.folds=5")
    if folds < 2:
        raise LabError(f"data.folds is {folds}, expected at least 2.")
    if fold is None:
        raise LabError(
            f"data.folds is {folds}, and no fold is named. Write which one is held out, data.fold=0, "
            f"or train all of them: 'data.fold=range({folds})' -m"
        )
    if not 0 <= fold < folds:
        raise LabError(f"data.fold is {fold}, expected 0 to {folds - 1} with data.folds={folds}.")


def rows_of_fold(
    layout: Layout, split: str, folds: int, fold: int, stratify: str | None
) -> np.ndarray | None:
    """The rows of train and val: of val those that the fold holds out, (n,) int64, sorted.

    The rows of the file's own train and val are divided; its test is no part of any fold. Samples of
    one group stay together.

    Args:
        stratify: a field of classes, which each fold gets in equal parts as far as groups allow.

    Returns:
        None for other splits, which are those of the file.
    """
    if split not in DIVIDED:
        return None
    rows = divided_rows(layout)
    classes = classes_of(layout, stratify, rows)
    group_of = groups_of(layout, rows)
    if group_of is not None:
        require_enough(layout, group_of.max(initial=-1) + 1, "group", folds)
        fold_of = divide_groups(group_of, classes, np.ones(folds))
    else:
        require_enough(layout, len(rows), "sample", folds)
        fold_of = divide_samples(classes, folds)
    is_held_out = fold_of == fold
    return rows[is_held_out if split == "val" else ~is_held_out]


def rows_of_fraction(
    layout: Layout, rows: np.ndarray, fraction: float, stratify: str | None
) -> np.ndarray:
    """A share of training rows, sorted; at least one sample, or one group: those stay together.

    Args:
        fraction: of the samples, in 0..1.
        stratify: a field of classes, of each of which that share is taken as far as groups allow.
    """
    classes = classes_of(layout, stratify, rows)
    group_of = groups_of(layout, rows)
    if group_of is not None:
        return rows[divide_groups(group_of, classes, np.array([fraction, 1 - fraction])) == 0]
    n_kept = max(1, round(fraction * len(rows)))
    by_class = np.argsort(classes, kind="stable")
    return rows[np.sort(by_class[np.arange(n_kept) * len(rows) // n_kept])]


def divided_rows(layout: Layout) -> np.ndarray:
    """The rows that folds divide, sorted: those of train and val; all of a file without splits."""
    if not layout.splits:
        return np.arange(layout.n_samples)
    parts = [layout.map(layout.split(name)) for name in DIVIDED if name in layout.splits]
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def groups_of(layout: Layout, rows: np.ndarray) -> np.ndarray | None:
    """The group of each row as a number from 0; None for data without groups."""
    if GROUP not in layout.fields:
        return None
    if len(layout.parts) > 1 and group_hashes(layout) is None:
        raise LabError(
            f"{layout.path} is {len(layout.parts)} files with groups, which each numbers by itself, so "
            "that no group could be kept together. Pack all of it into one file; or the first one, "
            "then the others with lab data append."
        )
    _, group_of = np.unique(layout.map(layout.field(GROUP))[rows], return_inverse=True)
    return group_of


def classes_of(layout: Layout, field: str | None, rows: np.ndarray) -> np.ndarray:
    """The class of each row as a number from 0; one class for all without a field."""
    if field is None:
        return np.zeros(len(rows), np.int64)
    array = layout.fields.get(field)
    if array is None or array.dtype.kind not in "iub" or len(array.shape) != 1:
        raise LabError(
            f"data.stratify is {field!r}, expected a field of whole numbers, one for each sample. "
            f"Fields: {', '.join(layout.fields)}"
        )
    _, classes = np.unique(layout.map(array)[rows], return_inverse=True)
    return classes


def divide_samples(classes: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each sample, (n,): those of a class take turns, in the order of the file.

    `lab data pack` has put them into a random order already.
    """
    fold_of = np.empty(len(classes), np.int64)
    fold_of[np.argsort(classes, kind="stable")] = np.arange(len(classes)) % folds
    return fold_of


def divide_groups(group_of: np.ndarray, classes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The fold of each sample, (n,): each group, the largest first, goes where its classes are rarest.

    Of several such folds it goes to the smallest, so that none stays empty.

    Args:
        wanted: how large each fold shall be in comparison with the others, (folds,).
    """
    n_groups = group_of.max(initial=-1) + 1
    counts = np.zeros((n_groups, classes.max(initial=0) + 1), np.int64)
    np.add.at(counts, (group_of, classes), 1)
    shares = counts / counts.sum(axis=0)
    fold_of_group = np.empty(n_groups, np.int64)
    sizes = counts.sum(axis=1)
    share_in_fold = np.zeros((len(wanted), counts.shape[1]))
    size_of_fold = np.zeros(len(wanted), np.int64)
    for group in np.argsort(-sizes, kind="stable"):
        fullness = share_in_fold @ shares[group] / wanted
        fold = np.lexsort((size_of_fold / wanted, fullness))[0]
        fold_of_group[group] = fold
        share_in_fold[fold] += shares[group]
        size_of_fold[fold] += sizes[group]
    return fold_of_group[group_of]


def require_enough(layout: Layout, n: int, noun: str, folds: int) -> None:
    """Makes sure that no fold is empty."""
    if n < folds:
        raise LabError(
            f"{layout.path} has {counted(n, noun)} in train and val, too few for "
            f"data.folds={folds}. Write a smaller number."
        )
