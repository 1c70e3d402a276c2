"""The state of all random generators of a process, and the order that a torch DataLoader draws from its own.

NumPy's is the old global one (`np.random.rand`), which many libraries draw from.
The workers of a loader read this file, so it imports little.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypedDict

import numpy as np
import torch

# "torch.cuda" is no Python name, so the schema is written as a call.
RandomState = TypedDict(
    "RandomState",
    {
        "torch": torch.Tensor,
        "python": tuple[Any, ...],  # of random.getstate()
        "numpy": tuple[
            Any, ...
        ],  # of numpy.random.get_state(); from a checkpoint with a tensor in it
        "torch.cuda": list[torch.Tensor],  # of the GPU of this process; only with CUDA
    },
    total=False,
)


def read_random_state(cuda: bool) -> RandomState:
    """The state of this process; `cuda`: also that of its GPU."""
    state: Any = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
    }
    if cuda:
        state["torch.cuda"] = [torch.cuda.get_rng_state()]
    return state


def set_random_state(state: RandomState) -> None:
    """Sets what `read_random_state` gave, also after it was in a checkpoint."""
    torch.set_rng_state(state["torch"])
    if "torch.cuda" in state and torch.cuda.is_initialized():
        set_gpu_state(state["torch.cuda"])
    numpy_state = tuple(as_array(item) for item in state["numpy"])
    np.random.set_state(numpy_state)  # noqa: NPY002
    version, words, next_gauss = state["python"]
    random.setstate((version, tuple(words), next_gauss))


def set_gpu_state(states: list[torch.Tensor]) -> None:
    """Sets the generator of this process's GPU, whose number may be another one than before.

    Checkpoints of earlier releases hold a state for each GPU that the process saw.
    """
    index = torch.cuda.current_device()
    torch.cuda.set_rng_state(states[index] if index < len(states) else states[0])


def seed_generators(entropy: tuple[int, ...]) -> None:
    """Sets Python's, NumPy's and torch's generator of the CPU from `entropy`, numbers >= 0."""
    torch_seed, numpy_seed, python_seed = np.random.SeedSequence(entropy).generate_state(3)
    # Only the generator of the CPU: torch.manual_seed sets those of the GPUs too.
    torch.default_generator.manual_seed(int(torch_seed))
    np.random.seed(numpy_seed)  # noqa: NPY002
    random.seed(int(python_seed))


@contextmanager
def random_numbers_of(entropy: tuple[int, ...]) -> Iterator[None]:
    """Within the block the generators of the CPU are set from `entropy`; afterwards they continue as
    if there had been no block."""
    before = read_random_state(cuda=False)
    seed_generators(entropy)
    try:
        yield
    finally:
        set_random_state(before)


def as_array(item: Any) -> Any:
    """Checkpoints hold arrays as tensors (see `plain_types`)."""
    return item.numpy() if isinstance(item, torch.Tensor) else item


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
