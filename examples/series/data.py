"""Generated demand for electricity, day by day, in blocks of time that k folds take in turns.

generated                lab data pack series       -> data/series.h5: x float32 (28,), y float32, block int64
data/series.h5           training step              -> past_BT, demand_B in MW
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from labrig import H5DataModule

N_DAYS = 3600
N_PAST = 28  # days that a prediction sees
N_FOLDS = 5  # blocks for training and validation; one more, the last in time, for the test


class Demand(H5DataModule):
    """Ten years of demand. No sample reaches over the edge of a block: folds share no day.

    Args:
        fold: the block that validates, in 0..4; the other four train.
    """

    def __init__(self, fold: int = N_FOLDS - 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.fold = fold

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        blocks = np.array_split(demand_MW(), N_FOLDS + 1)
        for block, values in enumerate(blocks):
            split = {N_FOLDS: "test", N_FOLDS - 1: "val"}.get(block, "train")
            for day in range(N_PAST, len(values)):
                yield {
                    "x": values[day - N_PAST : day],
                    "y": values[day],
                    "block": np.int64(block),
                    "split": split,
                }

    def rows(self, split: str) -> np.ndarray | None:
        """Of train and val the rows of this fold."""
        if split not in ("train", "val"):
            return None
        block = self.layout.map(self.layout.field("block"))
        is_val = block == self.fold
        return np.flatnonzero(is_val if split == "val" else ~is_val & (block < N_FOLDS))


def demand_MW() -> np.ndarray:
    """(N_DAYS,) float32: growth, season, week, and weather that stays for some days."""
    rng = np.random.default_rng(0)
    day = np.arange(N_DAYS)
    weather = np.zeros(N_DAYS)
    for n in range(1, N_DAYS):
        weather[n] = 0.8 * weather[n - 1] + rng.normal(0, 15)
    season = 120 * np.cos(2 * np.pi * day / 365.25)
    weekend = np.where(day % 7 >= 5, -90 + 0.1 * season, 0)
    holiday = np.where(rng.random(N_DAYS) < 0.02, -80, 0)
    noise = rng.normal(0, 8, N_DAYS)
    return (800 + 0.03 * day + season + weekend + weather + holiday + noise).astype(np.float32)
