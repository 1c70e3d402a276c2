"""The order of an epoch of a torch DataLoader, from any batch on, with a seed and the size of each
batch.

Its workers read this file, so it imports little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from .random_state import seed_generators


class SeededBatch(list):
    """The indices of a batch, and what seeds the random numbers that a worker draws for it."""

    entropy: tuple[int, ...] = ()


class SeededOrder:
    """Takes the place of a DataLoader's sampler: an order that follows from a seed, without the
    batches that were trained already. It notes how many samples each batch has.

    Args:
        sampler: gives the batches of an epoch, lists of indices.
        generators: those that the user gave to the DataLoader or its sampler. They follow from their
            first seed and that of the order.
        rank: of this process; batches of ranks have seeds of their own.
    """

    def __init__(
        self, sampler: Iterable[Any], generators: list[torch.Generator], rank: int
    ) -> None:
        self.sampler = sampler
        self.generators = [(generator, generator.initial_seed()) for generator in generators]
        self.rank = rank
        # Of the next epoch, the same on all ranks; None: the sampler's own order.
        self.entropy: tuple[int, ...] | None = None
        self.n_skipped = 0  # batches of it that were trained already
        # Samples of the batches that were asked for in this iteration; None: not known.
        self.sizes: deque[int | None] = deque()

    def __iter__(self) -> Iterator[Any]:
        self.sizes = deque()
        if self.entropy is None:
            return noted(self.sampler, self.sizes)
        self._seed(self.entropy)
        batches = islice(enumerate(self.sampler), self.n_skipped, None)
        # Samplers draw when their first batch is asked for: that is now, and not in the training.
        first = list(islice(batches, 1))
        entropy = (*self.entropy, self.rank)
        in_order = (seeded(indices, (*entropy, n)) for n, indices in chain(first, batches))
        return noted(in_order, self.sizes)

    def _seed(self, entropy: tuple[int, ...]) -> None:
        seed_generators(entropy)
        for generator, first_seed in self.generators:
            seeds = np.random.SeedSequence((first_seed, *entropy))
            generator.manual_seed(int(seeds.generate_state(1)[0]))

    def __len__(self) -> int:
        sampler: Any = self.sampler
        return len(sampler)


def seeded(indices: Any, entropy: tuple[int, ...]) -> Any:
    """Indices with their seed. Those that are no list may mean something to the dataset; they stay."""
    if type(indices) is not list:
        return indices
    batch = SeededBatch(indices)
    batch.entropy = entropy
    return batch


def noted(batches: Iterable[Any], sizes: deque[int | None]) -> Iterator[Any]:
    """The batches of a sampler. The size of each that is a list of indices is appended to `sizes`."""
    for indices in batches:
        sizes.append(len(indices) if isinstance(indices, list | tuple) else None)
        yield indices
