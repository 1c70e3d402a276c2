"""The order of samples in an epoch, the same on any number of ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np


def permutation(n: int, *entropy: int) -> np.ndarray:
    """(n,) int64, random. Sorting raw 64-bit draws, unlike Generator.permutation, is the same in
    every version of NumPy.
    """
    return np.random.PCG64(entropy).random_raw(n).argsort()


@dataclass
class Batch:
    """What is read at once.

    Args:
        indices: of its samples within the split.
        end: samples of all ranks since the epoch began, this step's included; 0 without a planned
            order.
        entropy: seeds whatever is random in this batch; None without a planned order.
    """

    indices: np.ndarray
    end: int = 0
    entropy: tuple[int, ...] | None = None

    @cached_property
    def rng(self) -> np.random.Generator:
        """Draws the same numbers for this batch whenever, and in whichever process, it is made.
        Without a planned order it follows torch.manual_seed and the seed of a DataLoader's worker.
        """
        if self.entropy:
            return np.random.default_rng(self.entropy)
        import torch  # here, so that packing, which orders samples too, does not import it

        return np.random.default_rng(int(torch.randint(2**62, ()).item()))


@dataclass(frozen=True)
class Order:
    """Cuts the samples 0..n-1 of an epoch into steps, and each step into ranks.

    Every sample comes once per epoch. The last step is smaller and split evenly; when it would
    leave a rank without a sample (fewer samples than ranks) they join the step before. `drop_last`
    leaves out the incomplete step.
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
        smallest_step = self.step if self.drop_last else self.world_size
        return range(position, self.n - smallest_step + 1, self.step)

    def batches(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """This rank's batches of `epoch` from the sample `position` on."""
        order = permutation(self.n, self.seed, epoch) if self.shuffle else np.arange(self.n)
        starts = self.starts(position)
        for start in starts:
            end = start + self.step
            if start == starts[-1] and not self.drop_last:
                end = self.n
            first = start + (end - start) * self.rank // self.world_size
            stop = start + (end - start) * (self.rank + 1) // self.world_size
            yield Batch(order[first:stop], end, (self.seed, epoch, start, self.rank))
