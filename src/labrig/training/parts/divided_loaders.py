"""The samples of an evaluation, divided among processes: each sample counts once, also where they
cannot be divided evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import BatchSampler, Sampler, SequentialSampler

from ...hdf5.read.order import Order
from ..exact.random_state import random_numbers_of


class SampleShare(Sampler):
    """The samples, or the batches, that this process takes of what the user's sampler gives.

    Args:
        sampler: of the user's DataLoader, or his own kind of batch sampler. What it draws is the same
            on all processes.
        seed: for what it draws, >= 0.
        rank, world_size: of this process, and their number.
    """

    def __init__(self, sampler: Any, seed: int, rank: int, world_size: int) -> None:
        self.sampler = sampler
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning says which epoch of the training it is."""
        self.epoch = epoch

    def of_all(self) -> Sequence[Any]:
        """The samples of all processes, in their order."""
        if type(self.sampler) is SequentialSampler:
            return range(len(self.sampler))
        with random_numbers_of((self.seed, self.epoch)):
            return list(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.of_all()[self.rank :: self.world_size])

    def __len__(self) -> int:
        return len(range(self.rank, len(self.sampler), self.world_size))


class SharedBatches(BatchSampler):
    """Batches of a `Share`, the same number on each process: whoever waits for the others in a step
    finds them.

    The last step is divided evenly. Samples that are fewer than the processes join the step before,
    as in a data file. With `batch_size` 1 they do not: such samples may have different shapes, so some
    processes have a batch more.
    """

    sampler: SampleShare

    def __iter__(self) -> Iterator[list[Any]]:
        samples = self.sampler.of_all()
        if self.batch_size == 1:
            yield from ([sample] for sample in self.sampler)
            return
        for batch in self._order(len(samples)).batches(epoch=0):
            yield [samples[i] for i in batch.indices]

    def __len__(self) -> int:
        if self.batch_size == 1:
            return len(self.sampler)
        return len(self._order(len(self.sampler.sampler)).starts())

    def _order(self, n: int) -> Order:
        """The steps of n samples. One process would leave out the last of them with `drop_last`."""
        if self.drop_last:
            n -= n % self.batch_size
        share = self.sampler
        return Order(n, self.batch_size, rank=share.rank, world_size=share.world_size)
