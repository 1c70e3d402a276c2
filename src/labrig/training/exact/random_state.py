"""Reads and sets the state of all random generators of a process: Python's, NumPy's, torch's,
CUDA's.

NumPy's is the old global one (`np.random.rand`), which many libraries draw from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
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
