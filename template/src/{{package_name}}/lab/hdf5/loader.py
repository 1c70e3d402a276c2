# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Batches of a split in a given order, one thread or some processes ahead, with a position that a checkpoint
can hold."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..errors import LabError
from ..machine.node import in_order
from .dataset import H5Dataset, as_is
from .file_layout import DataFileError
from .order import Batch, Order

AHEAD = 4  # batches read before they are asked for


class Loader:
    """An iterable over one rank's batches; each iteration is the next epoch, or the rest of the one it was
    loaded into.

    It is no DataLoader, so that Lightning leaves its sampling alone: it shards by itself. With workers it
    drives one.

    Args:
        dataset, order: what is read, and in which order.
        num_workers: 0 reads in one thread beside the training loop, which is fastest unless samples need much
            work.
        pin_memory: batches in page-locked memory, for copies to a GPU that do not block.
        start_method: of the workers: fork, spawn, forkserver, or None for the platform's default.
        epoch: gives the epoch at hand when somebody else counts them (Lightning); None: this loader counts.
        on_other_steps: told how many steps of the epoch count as done when a state of other ranks is loaded.
    """

    def __init__(
        self,
        dataset: H5Dataset,
        order: Order,
        *,
        num_workers: int = 0,
        pin_memory: bool = False,
        start_method: str | None = None,
        epoch: Callable[[], int] | None = None,
        on_other_steps: Callable[[int], Any] = lambda steps: None,
    ) -> None:
        self.dataset, self.order, self.batch_size = dataset, order, order.batch_size
        self.num_workers, self.pin_memory, self.start_method = num_workers, pin_memory, start_method
        self.epoch, self.position = 0, 0  # position: samples of all ranks delivered in this epoch
        self._count_epoch, self._on_other_steps = epoch, on_other_steps
        self._resumes = False  # a state was loaded and not yet iterated
        self._workers: DataLoader | None = None

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return len(self.order.starts())

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        ahead = self._from_workers() if self.num_workers else in_order(self._read, self._plan(), 1, AHEAD)
        for end, batch in ahead:
            self.position = end  # before the yield: a checkpoint taken while this batch is used includes it
            yield batch

    def _plan(self) -> Iterator[Batch]:
        """The batches to come. Decided when the first is asked for: Lightning makes iterators before it knows
        the epoch."""
        resumes, self._resumes = self._resumes, False
        epoch = self._count_epoch() if self._count_epoch else self.epoch + (self.position > 0 and not resumes)
        if epoch != self.epoch or not resumes:
            self.position = 0
        self.epoch = epoch
        return self.order.batches(epoch, self.position)

    def _read(self, batch: Batch) -> tuple[int, tuple[torch.Tensor, ...]]:
        tensors = self.dataset.__getitems__(batch)
        return batch.end, tuple(tensor.pin_memory() for tensor in tensors) if self.pin_memory else tensors

    def _from_workers(self) -> Iterator[tuple[int, Any]]:
        if self._workers is None:
            how = {"num_workers": self.num_workers, "persistent_workers": True, "collate_fn": as_is}
            how |= {"pin_memory": self.pin_memory, "multiprocessing_context": self.start_method}
            self._workers = DataLoader(self.dataset, batch_sampler=_Planned(self), **how)
        ends = self._workers.batch_sampler.ends
        ends.clear()
        try:
            for batch in self._workers:
                yield ends.popleft(), batch
        except DataFileError as error:  # torch puts the worker's traceback in front of the message
            raise DataFileError(str(error).rsplit("DataFileError: ", 1)[-1].strip()) from None

    def close(self) -> None:
        """Ends the worker processes."""
        self._workers = None

    def state_dict(self) -> dict[str, int]:
        """The position, the same on all ranks; Lightning keeps it in checkpoints."""
        at = {"epoch": self.epoch, "position": self.position}
        return at | {"n": self.order.n, "seed": self.order.seed, "step": self.order.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration goes on after the `position` of `state`, which may be from another number of
        ranks.

        Raises:
            LabError: the state is from another number of samples, where its position means nothing.
        """
        order, file = self.order, self.dataset.layout.path
        if state["n"] != order.n:
            counts = f"was made with {state['n']} training samples, {file} has {order.n} now"
            raise LabError(f"the checkpoint {counts}. Bring that file back, or start a new run.")
        self.epoch, self.position, self._resumes = state["epoch"], state["position"], True
        left = len(order.starts(self.position))
        if (state["step"], state["seed"]) != (order.step, order.seed):
            at = f"after sample {self.position} of epoch {self.epoch}, {order.step} samples a step instead of"
            if order.rank == 0:
                print(f"lab: goes on {at} {state['step']}; so no longer bit for bit.", file=sys.stderr)
            self._on_other_steps(len(self) - left)
        if not left:
            self.epoch, self.position = self.epoch + 1, 0


class _Planned:
    """The batch sampler of the workers' DataLoader: what `_plan` gives, remembering where each batch ends."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.ends: deque[int] = deque()

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.loader._plan():
            self.ends.append(batch.end)
            yield batch

    def __len__(self) -> int:
        return len(self.loader)
