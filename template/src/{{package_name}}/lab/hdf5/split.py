# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Who goes into which split: by ratio, as given, or by group; the same for the same seed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from .file_layout import DataFileError

RATIOS = {"train": 0.8, "val": 0.1, "test": 0.1}


def parse_ratios(text: str) -> dict[str, float]:
    """`train=0.8,val=0.1,test=0.1` as a dict; they add up to one.

    Raises:
        DataFileError: not of that form.
    """
    try:
        ratios = {name.strip(): float(ratio) for name, ratio in (part.split("=") for part in text.split(","))}
    except ValueError as error:
        raise DataFileError(
            f"--split {text!r}: expected names and shares such as train=0.8,val=0.1,test=0.1"
        ) from error
    if any(ratio <= 0 for ratio in ratios.values()) or abs(sum(ratios.values()) - 1) > 1e-6:
        raise DataFileError(
            f"--split {text!r}: the shares must be above 0 and add up to 1, they add up to "
            f"{sum(ratios.values()):g}"
        )
    return ratios


def by_ratio(n: int, ratios: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Random disjoint splits of 0..n-1 in these shares. A split whose share rounds to no sample is left out,
    so that one sample makes a training split only."""
    order = np.random.PCG64([seed, n]).random_raw(n).argsort(kind="stable")
    cuts = np.rint(np.cumsum(list(ratios.values())) * n).astype(int)
    cuts[-1] = n
    parts = np.split(order, cuts[:-1])
    found = {name: np.sort(part) for name, part in zip(ratios, parts, strict=True) if len(part)}
    if n and next(iter(ratios)) not in found:  # too few to share: all go to the first
        return {next(iter(ratios)): np.arange(n)}
    return found


def by_group(groups: Sequence[Hashable], ratios: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Splits in which all samples of a group lie on one side; the shares are of groups, not of samples."""
    number_of = {}
    members = np.array([number_of.setdefault(group, len(number_of)) for group in groups], np.int64)
    return {
        name: np.flatnonzero(np.isin(members, chosen))
        for name, chosen in by_ratio(len(number_of), ratios, seed).items()
    }


def as_given(names: Sequence[str]) -> dict[str, np.ndarray]:
    """Splits from one name per sample."""
    array = np.asarray(names)
    return {str(name): np.flatnonzero(array == name) for name in dict.fromkeys(names)}
