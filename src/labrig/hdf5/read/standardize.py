"""Mean and deviation of the training rows of a run, by which its fields are standardised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from ..file.errors import DataFileError
from ..file.layout import BLOCK_BYTES, OFFSETS, Layout

Statistics = dict[str, dict[str, torch.Tensor]]  # field -> "mean" and "std", float64


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
        total, count = np.zeros(shape), np.zeros(shape)
        for block in blocks(first):
            is_value = ~np.isnan(block)
            powered = np.where(is_value, block, 0) ** power
            total = total + powered.sum(axes).reshape(shape)
            count = count + is_value.sum(axes).reshape(shape)
        if not count.all():
            raise DataFileError(
                f"{layout.path}: {name} has no value in the training rows, so no mean. Look at the data."
            )
        return np.asarray(total / count)

    mean = mean_of_blocks(0.0, 1)
    deviation = np.sqrt(mean_of_blocks(mean, 2))
    deviation = np.where(deviation == 0, 1, deviation)  # a column of one value becomes 0
    return {"mean": torch.as_tensor(mean), "std": torch.as_tensor(deviation)}


def standardized(tensor: torch.Tensor, statistics: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """(tensor - mean) / deviation as float32, counted in the type that holds both."""
    double = tensor.device.type != "mps"
    wide = tensor.double() if double else tensor.float()
    mean, std = (statistics[name].to(wide) for name in ("mean", "std"))
    return ((wide - mean) / std).float()
