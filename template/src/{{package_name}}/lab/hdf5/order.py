# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The order of samples in an epoch, the same on any number of ranks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .fields import Batch


def permutation(n: int, *entropy: int) -> np.ndarray:
    """(n,) int64, random. Sorting raw 64-bit draws, unlike Generator.permutation, is the same in every version of NumPy."""
    return np.random.PCG64(entropy).random_raw(n).argsort()


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
        return range(
            position, self.n - (self.step if self.drop_last else self.world_size) + 1, self.step
        )

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """This rank's batches of `epoch` from the sample `position` on."""
        order = permutation(self.n, self.seed, epoch) if self.shuffle else np.arange(self.n)
        starts = self.starts(position)
        for start in starts:
            end = self.n if start == starts[-1] and not self.drop_last else start + starts.step
            low, high = (
                start + (end - start) * k // self.world_size for k in (self.rank, self.rank + 1)
            )
            yield Batch(order[low:high], end, (self.seed, epoch, start, self.rank))
