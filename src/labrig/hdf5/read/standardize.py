"""Mean and deviation of the training rows of a run, by which its fields are standardised."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import LabError
from ...machine.text_formats import counted
from ..file.errors import DataFileError
from ..file.groups import group_hashes
from ..file.layout import BLOCK_BYTES, GROUP, OFFSETS, Layout

# field -> "mean" and "std", float64; of groups with a row for each, and "groups", the hashes of their names
Statistics = dict[str, dict[str, Any]]


def check_scaling(
    scale: Collection[str], names: Sequence[str], per_group: bool, fields: Sequence[str]
) -> None:
    """Raises LabError for settings of a data module that say nothing together."""
    unread = sorted({*scale} - {*fields})
    if unread:
        raise LabError(f"data.scale names {unread}, expected some of data.fields: {fields}.")
    unread = [name for name in names if name not in fields or name in scale]
    if unread:
        raise LabError(
            f"data.standardize names {unread}, expected some of data.fields, {[*fields]}, that "
            "data.scale does not name. Write: data.standardize=x"
        )
    if per_group and (not names or GROUP not in fields):
        raise LabError(
            f"data.standardize_per_group goes with data.standardize, and with {GROUP} in data.fields, which "
            f"are {[*fields]}. Write: data.fields=[{','.join([*fields, GROUP])}]"
        )


def statistics_of(layout: Layout, name: str, rows: np.ndarray) -> dict[str, torch.Tensor]:
    """Mean and deviation of a field in these rows: of each column, of each channel of images, or of all
    values of samples that vary in length. NaN does not count.
    """
    array = layout.field(name)
    if "encoding" in array.attrs:
        raise DataFileError(
            f"{layout.path}: {name} holds encoded images, which data.standardize does not read. "
            "Normalise them in on_after_batch_transfer: lab docs data"
        )
    if array.dtype.kind == "c":
        raise DataFileError(
            f"{layout.path}: {name} holds complex numbers, which data.standardize does not read. "
            "Normalise them in on_after_batch_transfer: lab docs data"
        )
    values = layout.rows(array)
    is_ragged = layout.is_ragged(name)
    offsets = layout.map(layout.arrays[name + OFFSETS]) if is_ragged else None
    kept = 0 if is_ragged else min(1, len(array.shape) - 1)  # axes that have a mean for each place
    axes = (0, *range(1 + kept, len(array.shape)))
    shape = (*array.shape[1 : 1 + kept], *[1] * (len(array.shape) - 1 - kept))
    n_rows = max(1, BLOCK_BYTES * max(1, array.n_rows) // max(1, array.n_bytes))

    def blocks(first: np.ndarray | float) -> Iterator[np.ndarray]:
        for start in range(0, len(rows), n_rows):
            part = rows[start : start + n_rows]
            if offsets is None:
                yield values.take(part, 0).astype(np.float64) - first
            else:
                flat = [values[int(offsets[row]) : int(offsets[row + 1])] for row in part]
                yield np.concatenate(flat).astype(np.float64) - first

    def mean_of_blocks(first: np.ndarray | float, power: int) -> np.ndarray:
        """Of equal values that value, which a sum of many would miss by its rounding."""
        total, count = np.zeros(shape), np.zeros(shape)
        low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
        for block in blocks(first):
            powered = block**power
            total = total + np.nansum(powered, axes).reshape(shape)
            count = count + (~np.isnan(block)).sum(axes).reshape(shape)
            low = np.fmin(low, np.fmin.reduce(powered, axes, initial=np.inf).reshape(shape))
            high = np.fmax(high, np.fmax.reduce(powered, axes, initial=-np.inf).reshape(shape))
        if not count.all():
            raise DataFileError(
                f"{layout.path}: {name} has no value in the training rows, so no mean. Look at the data."
            )
        return np.where(low == high, low, total / count)

    mean = mean_of_blocks(0.0, 1)
    deviation = np.sqrt(mean_of_blocks(mean, 2))
    deviation = np.where(deviation == 0, 1, deviation)  # a column of one value becomes 0
    return {"mean": torch.as_tensor(mean), "std": torch.as_tensor(deviation)}


def training_statistics(
    layout: Layout, name: str, rows: np.ndarray, per_group: bool
) -> dict[str, Any]:
    """Mean and deviation of these rows; per group a row (G, …) for the number of each, NaN for one that has
    none of them, and "groups", the hashes of their names.
    """
    if not per_group:
        return statistics_of(layout, name, rows)
    hashes = group_hashes(layout)
    if hashes is None:
        raise DataFileError(
            f"{layout.path} has no groups, so data.standardize_per_group has none. Pack it with --group, or "
            "leave that out."
        )
    group_of = layout.map(layout.field(GROUP))[rows]
    found = {g: statistics_of(layout, name, rows[group_of == g]) for g in np.unique(group_of)}
    lacking = torch.full_like(next(iter(found.values()))["mean"], torch.nan)
    stacked = {
        key: torch.stack([found[g][key] if g in found else lacking for g in range(len(hashes))])
        for key in ("mean", "std")
    }
    return {**stacked, "groups": hashes}


def of_groups_in(layout: Layout, statistics: Statistics) -> Statistics:
    """Statistics by the numbers that the groups have in other data; NaN for those that are new there."""
    fitted = {}
    for name, of_field in statistics.items():
        fitted[name] = of_field
        if "groups" not in of_field:
            continue
        known, hashes = of_field["groups"], group_hashes(layout) or []
        numbers = [known.index(each) if each in known else -1 for each in hashes]
        with_lacking = {
            key: torch.cat([of_field[key], torch.full_like(of_field[key][:1], torch.nan)])
            for key in ("mean", "std")
        }
        fitted[name] = {key: rows[numbers] for key, rows in with_lacking.items()} | {
            "groups": hashes
        }
    return fitted


def require_statistics(layout: Layout, rows: np.ndarray, statistics: Statistics) -> None:
    """Raises DataFileError when these rows have a group that did not train."""
    groups = np.unique(layout.map(layout.field(GROUP))[rows])
    for name, of_field in statistics.items():
        is_lacking = of_field["mean"][groups].reshape(len(groups), -1).isnan().any(1)
        if is_lacking.any():
            raise DataFileError(
                f"{layout.path}: {counted(int(is_lacking.sum()), 'group')} of {len(groups)} that are read did "
                f"not train, so {name} has no mean of its own there. Standardise all alike: "
                "data.standardize_per_group=false"
            )


def standardized(
    tensor: torch.Tensor, statistics: Mapping[str, Any], group_B: torch.Tensor | None = None
) -> torch.Tensor:
    """(tensor - mean) / deviation as float32, counted in the type that holds both; of groups each row by
    that of its own.
    """
    double = tensor.device.type != "mps"
    wide = tensor.double() if double else tensor.float()
    mean, std = (statistics[name].to(wide) for name in ("mean", "std"))
    if group_B is not None:
        mean, std = (of_group_B[group_B] for of_group_B in (mean, std))
        axes = [1] * (wide.ndim - mean.ndim)
        mean, std = (of_row.reshape(*of_row.shape, *axes) for of_row in (mean, std))
    return ((wide - mean) / std).float()
