"""Loads batches ahead of the training step, and knows its position in an epoch to the sample."""

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NotRequired, TypedDict

import torch
from torch.utils.data import DataLoader

from ...errors import LabError
from ...machine.parent import end_with_parent
from ..file.errors import DataFileError
from ..file.parallel import map_in_order
from .dataset import H5Dataset, Tensors, as_is
from .order import Batch, Order

# The worker processes of a loader: how they start, and when they end.

# What is imported once for all of them: torch, and what a training adds to load frozen code.
PRELOADED = [__name__]


def start_workers(dataset: H5Dataset, plan: Any, num_workers: int, pin_memory: bool) -> DataLoader:
    """A DataLoader whose workers read the batches of `plan`, an iterable, again in each iteration.

    They start with the first iteration, and live until the DataLoader is gone. What is random in a
    batch follows from the batch alone, so the number of workers changes nothing.
    """
    multiprocessing.set_forkserver_preload(PRELOADED)
    return DataLoader(
        dataset,
        batch_sampler=plan,
        collate_fn=as_is,
        num_workers=num_workers,
        persistent_workers=True,
        pin_memory=pin_memory,
        multiprocessing_context=start_method(),
        worker_init_fn=end_with_its_parent,
        # Else the seed of the workers is drawn from torch's global generator: what the training draws
        # next (dropout) would be another number than without workers, or after a resume.
        generator=torch.Generator(),
    )


def start_method() -> str:
    """spawn where it was chosen, or is the default; else forkserver.

    Not fork: Python 3.11 hangs in a fork while another thread, such as one of DDP's, begins or ends.
    And "fork" may be nobody's choice: a lock of multiprocessing (tqdm has one) sets the default.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    return "spawn" if chosen == "spawn" else "forkserver"


def end_with_its_parent(worker: int) -> None:
    """What each worker does first."""
    end_with_parent()


AHEAD = 4  # turns of the reading thread before their batches are asked for
# Handing over a batch of at most SMALL_BYTES takes longer than reading it,
# so that the thread reads several in a turn.
SMALL_BYTES = 128 << 10
SMALL_BATCHES_PER_TURN = 8


class LoaderState(TypedDict):
    """A position in an epoch, the same on all ranks. Plain numbers, as checkpoints hold them."""

    epoch: int
    position: int  # samples of all ranks delivered in this epoch
    n: int  # samples in an epoch
    seed: int
    step: int  # samples of all ranks per step
    block: NotRequired[int]  # samples in a block, see `Order`; older checkpoints lack it
    bucket: NotRequired[int]  # samples of similar length, likewise


class _Turns:
    """Cuts a plan into turns of the reading thread; `n_batches` may change between two turns."""

    def __init__(self, plan: Iterator[Batch]) -> None:
        self.plan = plan
        self.n_batches = 1  # alone, the first batch is there soonest

    def __iter__(self) -> Iterator[list[Batch]]:
        while batches := list(islice(self.plan, self.n_batches)):
            yield batches


@dataclass
class _Reading:
    """What the thread read in one turn; an error comes with the batches read before it."""

    batches: list[Tensors] = field(default_factory=list)
    error: Exception | None = None


@dataclass(eq=False)
class Loader:
    """One rank's batches; each iteration is the next epoch, or the rest of the one it resumes.

    It is no DataLoader, so that Lightning leaves its sampling alone: it divides the samples among
    the ranks by itself. With workers it drives one.

    Args:
        dataset, order: what is read, and in which order.
        num_workers: 0 reads in one thread of this process, which is fastest unless samples need
            much work.
        pin_memory: batches in page-locked memory, for copies to a GPU that do not block.
        device: a GPU that the batches are copied to, one batch ahead; None: they stay in memory.
        current_epoch: gives the present epoch when somebody else counts them (Lightning); None:
            this loader counts.
        on_resume_with_other_steps: called with the number of steps of the epoch that count as done,
            when a state with another number of samples per step is loaded.
    """

    dataset: H5Dataset
    order: Order
    num_workers: int = 0
    pin_memory: bool = False
    device: torch.device | None = None
    current_epoch: Callable[[], int] | None = None
    on_resume_with_other_steps: Callable[[int], None] | None = None

    inexact_because: list[str] = field(default_factory=list, init=False)  # since the last resume
    epoch: int = field(default=0, init=False)
    position: int = field(default=0, init=False)  # samples of all ranks delivered in this epoch
    _resumes: bool = field(default=False, init=False)  # a state was loaded and not yet iterated
    n_samples: int = field(default=0, init=False)  # that were cut for this rank's batch at hand
    n_samples_of_all: int = field(default=0, init=False)  # of all ranks
    _planned: deque[Batch] = field(default_factory=deque, init=False)  # not delivered yet
    _workers: DataLoader | None = field(default=None, init=False)

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return len(self.order.starts())

    def __iter__(self) -> Iterator[Tensors]:
        batches = self._read_in_workers() if self.num_workers else self._read_in_thread()
        if self.device:
            batches = copied_ahead(batches, self.device)
        for batch in batches:
            # before the yield: a checkpoint that is written during this batch includes it
            planned = self._planned.popleft()
            self.n_samples_of_all = planned.end - self.position
            self.position = planned.end
            self.n_samples = len(planned.indices)
            yield batch

    def plan(self) -> Iterator[Batch]:
        """The batches to come, from the position on.

        The epoch is decided when the first batch is asked for: Lightning makes iterators before it
        knows it.
        """
        resumes = self._resumes
        self._resumes = False
        epoch = self._epoch_to_plan(resumes)
        if epoch != self.epoch or not resumes:
            self.position = 0
        self.epoch = epoch
        self._planned.clear()
        for batch in self.order.batches(epoch, self.position):
            self._planned.append(batch)
            yield batch

    def _epoch_to_plan(self, resumes: bool) -> int:
        if self.current_epoch:
            return self.current_epoch()
        was_iterated = self.position > 0 and not resumes
        return self.epoch + 1 if was_iterated else self.epoch

    def _read_in_thread(self) -> Iterator[Tensors]:
        turns = _Turns(self.plan())
        for reading in map_in_order(self._read, turns, n_threads=1, ahead=AHEAD):
            yield from reading.batches
            if reading.error:
                raise reading.error
            turns.n_batches = self._batches_per_turn(reading.batches[0])

    def _batches_per_turn(self, batch: Tensors) -> int:
        small = sum(tensor.nbytes for tensor in batch) <= SMALL_BYTES
        return SMALL_BATCHES_PER_TURN if small and not self.dataset.transform else 1

    def _read(self, batches: list[Batch]) -> _Reading:
        """What the thread does in one turn."""
        reading = _Reading()
        try:
            for batch in batches:
                # a transform makes new tensors, which are copied there afterwards
                batch.page_locked = self.pin_memory and not self.dataset.transform
                tensors = self.dataset.__getitems__(batch)
                if self.pin_memory:
                    tensors = tuple(tensor.pin_memory() for tensor in tensors)
                reading.batches.append(tensors)
        except Exception as error:
            reading.error = error
        return reading

    def _read_in_workers(self) -> Iterator[Tensors]:
        if self._workers is None:
            self._workers = start_workers(
                self.dataset, _Plan(self), self.num_workers, self.pin_memory
            )
        try:
            yield from self._workers
        except DataFileError as error:  # torch puts the worker's traceback in front of the message
            message = str(error).rsplit("DataFileError: ", 1)[-1].strip()
            raise DataFileError(message) from None

    def close(self) -> None:
        """Ends the worker processes."""
        self._workers = None

    def state_dict(self) -> LoaderState:
        """The position, the same on all ranks; Lightning keeps it in checkpoints."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "n": self.order.n,
            "seed": self.order.seed,
            "step": self.order.step,
            "block": self.order.block,
            "bucket": self.order.bucket,
        }

    def load_state_dict(self, state: LoaderState) -> None:
        """The next iteration continues after the `position` of `state`, which may be from another
        number of ranks.

        Raises:
            LabError: the state is from another number of samples, where its position means nothing.
        """
        if state["n"] != self.order.n:
            raise LabError(
                f"the checkpoint was made with {state['n']} training samples, "
                f"{self.dataset.layout.path} has {self.order.n} now. "
                "Bring that file back, or start a new run."
            )
        self.epoch = state["epoch"]
        self.position = state["position"]
        self._resumes = True
        self._take_order(state.get("block", 0), state.get("bucket", 0))
        n_steps_left = len(self.order.starts(self.position))
        if (state["step"], state["seed"]) != (self.order.step, self.order.seed):
            self.inexact_because = [
                f"{state['step']} samples per step before, {self.order.step} now"
            ]
            self._print_other_steps(state)
            if self.on_resume_with_other_steps:
                self.on_resume_with_other_steps(len(self) - n_steps_left)
        if n_steps_left == 0:
            self.epoch += 1
            self.position = 0

    def _take_order(self, block: int, bucket: int) -> None:
        """Reads in the order of the checkpoint, in which alone its position means something."""
        if (block, bucket) == (self.order.block, self.order.bucket):
            return
        if bucket and self.order.lengths is None:
            raise LabError(
                "the checkpoint was made with data.order=lengths, in which alone its position in the "
                "epoch means something. Type: data.order=lengths"
            )
        was = self.order.name
        self.order = replace(self.order, block=block, bucket=bucket)
        if self.order.rank == 0 and self.order.name != was:
            print(
                f"lab: resuming with data.order={self.order.name}, in which the checkpoint was made.",
                file=sys.stderr,
            )

    def _print_other_steps(self, state: LoaderState) -> None:
        if self.order.rank != 0:
            return
        print(
            f"lab: resuming epoch {self.epoch} at sample {self.position} with {self.order.step} "
            f"samples per step (before: {state['step']}). "
            "The result will not be bit-identical to an uninterrupted run.",
            file=sys.stderr,
        )


def copied_ahead(batches: Iterable[Tensors], device: torch.device) -> Iterator[Tensors]:
    """The batches on a GPU. The copy of the next one runs, on a stream of its own, while the training
    computes with the last; so the training waits for no copy.

    An error of reading comes after the batches that were read before it.
    """
    stream = torch.cuda.Stream(device)
    copied: tuple[Tensors, torch.Event] | None = None
    error: Exception | None = None
    reading = iter(batches)
    while True:
        last = copied
        try:
            batch = next(reading, None)
        except Exception as raised:
            batch, error = None, raised
        if batch is None:
            if last:
                yield ready(*last, device)
            break
        with torch.cuda.stream(stream):
            tensors = tuple(tensor.to(device, non_blocking=True) for tensor in batch)
        copied = tensors, stream.record_event()
        if last:
            yield ready(*last, device)
    if error:
        raise error


def ready(tensors: Tensors, event: torch.Event, device: torch.device) -> Tensors:
    """The copies, for what the training computes from now on; the host does not wait for them."""
    training = torch.cuda.current_stream(device)
    training.wait_event(event)
    for tensor in tensors:
        # Its memory is not used again before the training has computed with it.
        tensor.record_stream(training)
    return tensors


class _Plan:
    """The batch sampler of the workers' DataLoader."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Batch]:
        return self.loader.plan()


def set_steps_done(trainer: Any, n_steps: int) -> None:
    """Tells Lightning how far the epoch is when the number of ranks changed, so that it ends where
    the data end.
    """
    progress = trainer.fit_loop.epoch_loop.batch_progress.current
    shift = n_steps - progress.ready
    for count in ("ready", "started", "processed", "completed"):
        setattr(progress, count, getattr(progress, count) + shift)
