# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Loads batches ahead of the training step, and knows its position in an epoch to the sample."""

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..errors import LabError
from .dataset import H5Dataset, as_is
from .fields import Batch
from .file_layout import DataFileError
from .order import Order
from .parallel import map_in_order

AHEAD = 4  # turns of the thread before their batches are asked for: of one batch each, or of
TOGETHER, SMALL_BYTES = (
    8,
    128 << 10,
)  # several so small that handing each over would take longer than reading it


@dataclass(eq=False)
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
        current_epoch: gives the epoch at hand when somebody else counts them (Lightning); None: this loader counts.
        on_other_steps: told how many steps of the epoch count as done when a state of other ranks is loaded.
    """

    dataset: H5Dataset
    order: Order
    num_workers: int = 0
    pin_memory: bool = False
    current_epoch: Callable[[], int] | None = None
    on_other_steps: Callable[[int], Any] = lambda steps: None
    epoch: int = field(default=0, init=False)
    position: int = field(default=0, init=False)  # samples of all ranks delivered in this epoch
    _resumes: bool = field(default=False, init=False)  # a state was loaded and not yet iterated
    _ends: deque[int] = field(
        default_factory=deque, init=False
    )  # of each batch that is planned and not yet delivered
    _workers: DataLoader | None = field(default=None, init=False)

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return len(self.order.starts())

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        for batch in self._from_workers() if self.num_workers else self._from_thread():
            self.position = (
                self._ends.popleft()
            )  # before the yield: a checkpoint during this batch includes it
            yield batch

    def _plan(self) -> Iterator[Batch]:
        """The batches to come. Decided when the first is asked for: Lightning makes iterators before it knows
        the epoch."""
        resumes, self._resumes = self._resumes, False
        epoch = (
            self.current_epoch()
            if self.current_epoch
            else self.epoch + (self.position > 0 and not resumes)
        )
        if epoch != self.epoch or not resumes:
            self.position = 0
        self.epoch = epoch
        self._ends.clear()
        for batch in self.order.batches(epoch, self.position):
            self._ends.append(batch.end)
            yield batch

    def _from_thread(self) -> Iterator[tuple[torch.Tensor, ...]]:
        plan, n_batches = self._plan(), 1  # alone, the first batch is there soonest
        turns = iter(lambda: list(islice(plan, n_batches)), [])
        for read, error in map_in_order(self._read, turns, 1, AHEAD):
            yield from read
            if error:
                raise error
            n_batches = (
                1
                if self.dataset.transform or sum(x.nbytes for x in read[0]) > SMALL_BYTES
                else TOGETHER
            )

    def _read(
        self, batches: list[Batch]
    ) -> tuple[list[tuple[torch.Tensor, ...]], Exception | None]:
        """What the thread does in one turn; an error comes with the batches that were read before it."""
        read = []
        try:
            for batch in batches:
                tensors = self.dataset.__getitems__(batch)
                read.append(
                    tuple(tensor.pin_memory() for tensor in tensors) if self.pin_memory else tensors
                )
        except Exception as error:
            return read, error
        return read, None

    def _from_workers(self) -> Iterator[tuple[torch.Tensor, ...]]:
        if self._workers is None:
            multiprocessing.set_forkserver_preload(
                [__name__]
            )  # torch is imported once for all of them
            how = {
                "num_workers": self.num_workers,
                "persistent_workers": True,
                "pin_memory": self.pin_memory,
            }
            # Python 3.11 hangs in a fork while another thread, such as one of DDP's, begins or ends
            how["multiprocessing_context"] = (
                multiprocessing.get_start_method(allow_none=True) or "forkserver"
            )
            self._workers = DataLoader(
                self.dataset, batch_sampler=_Plan(self), collate_fn=as_is, **how
            )
        try:
            yield from self._workers
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
                print(
                    f"lab: goes on {at} {state['step']}; so no longer bit for bit.", file=sys.stderr
                )
            self.on_other_steps(len(self) - left)
        if not left:
            self.epoch, self.position = self.epoch + 1, 0


class _Plan:
    """The batch sampler of the workers' DataLoader."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Batch]:
        return self.loader._plan()
