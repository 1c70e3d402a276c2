# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Which samples each rank reads, batch after batch: a function of (seed, epoch) alone, at any number of
ranks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Batch:
    """One rank's share of one step: `indices` into the split, the `end` of the step in samples of all ranks
    since the epoch began, and the `entropy` that seeds whatever is random in this batch."""

    indices: np.ndarray
    end: int
    entropy: tuple[int, ...]

    def rng(self) -> np.random.Generator:
        """Draws the same numbers for this batch whenever, in whichever process it is made."""
        return np.random.default_rng(self.entropy)


@dataclass(frozen=True)
class Order:
    """Cuts the samples 0..n-1 of an epoch into steps of world_size * batch_size, and each step into ranks.

    Every sample comes once per epoch. The last step is smaller and split evenly; when it would leave a rank
    without a sample (fewer samples than ranks) they join the step before. `drop_last` leaves out the
    incomplete step.
    """

    n: int
    batch_size: int
    seed: int = 0
    shuffle: bool = False
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1

    @property
    def step(self) -> int:
        """Samples of all ranks per step."""
        return self.world_size * self.batch_size

    def starts(self, position: int = 0) -> range:
        """Where the steps begin that follow after `position` samples of the epoch."""
        needed = self.step if self.drop_last else self.world_size
        return range(position, self.n - needed + 1, self.step)

    def permutation(self, epoch: int) -> np.ndarray:
        """(n,) int64. Sorting raw 64-bit draws, unlike Generator.permutation, is the same in every version of
        NumPy."""
        if not self.shuffle:
            return np.arange(self.n)
        return np.random.PCG64([self.seed, epoch]).random_raw(self.n).argsort(kind="stable")

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """This rank's batches of `epoch` from the sample `position` on."""
        permutation, starts = self.permutation(epoch), self.starts(position)
        for step, start in enumerate(starts):
            last = step == len(starts) - 1 and not self.drop_last
            end = self.n if last else start + starts.step
            low, high = (start + (end - start) * k // self.world_size for k in (self.rank, self.rank + 1))
            yield Batch(permutation[low:high], end, (self.seed, epoch, start, self.rank))
