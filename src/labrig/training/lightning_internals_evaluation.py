"""An evaluation on several processes that counts each sample once.

Lightning's sampler repeats samples until all processes have as many, and its mean over processes rounds
the number of their samples. This file imports and replaces private names of Lightning 2.6; only
`lightning_internals.Internals` imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.overrides.distributed import _IndexBatchSamplerWrapper
from lightning.pytorch.trainer.connectors.logger_connector.result import _ResultMetric
from lightning.pytorch.trainer.states import RunningStage
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    Sampler,
    SequentialSampler,
)

from ..errors import LabError
from ..hdf5.read.datamodule import data_ranks
from ..hdf5.read.order import Order
from ..machine.text_formats import counted
from .exact.random_state import random_numbers_of
from .lightning_internals_torch import replaced
from .watch.print_line import print_line

EVALUATING = (RunningStage.VALIDATING, RunningStage.TESTING, RunningStage.SANITY_CHECKING)


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


@contextmanager
def each_sample_counted_once(trainer: L.Trainer) -> Iterator[None]:
    """Within the block the DataLoaders of an evaluation give each sample to one process, once.

    - `_DataConnector._prepare_dataloader` gives a DataLoader torch's DistributedSampler, which
      repeats samples. For a prediction it builds the loader anew, and fails where `batch_size` has
      no name, as in `DataLoader(rows, 50)`.
    - `_ResultMetric.compute` averages the numbers of samples of the processes as integers, so a mean
      of 100 and 99 samples would be divided by 99 in place of 99.5.
    """
    connector = trainer._data_connector
    prepare = connector._prepare_dataloader

    def prepare_dataloader(dataloader: Any, shuffle: bool, mode: RunningStage) -> Any:
        if mode == RunningStage.PREDICTING and isinstance(dataloader, DataLoader):
            return with_indices(trainer, dataloader)
        if mode not in EVALUATING:
            return prepare(dataloader, shuffle=shuffle, mode=mode)
        split = str(mode.dataloader_prefix)
        if not isinstance(dataloader, DataLoader) or not connector._requires_distributed_sampler(
            dataloader
        ):
            say_what_counts_twice(trainer, dataloader, split)
            return dataloader
        return divided(trainer, dataloader, split)

    with ExitStack() as stack:
        stack.enter_context(replaced(connector, "_prepare_dataloader", prepare_dataloader))
        compute = weighted(_ResultMetric.compute)
        stack.enter_context(replaced(_ResultMetric, "compute", compute))
        yield


def divided(trainer: L.Trainer, dataloader: DataLoader, split: str) -> DataLoader:
    """A copy of a loader that gives this process's samples."""
    batches = dataloader.batch_sampler
    sampler: Any = getattr(batches, "sampler", dataloader.sampler)
    n = len(sampler)
    rank, n_ranks = data_ranks(trainer)
    if 0 < n < n_ranks:
        raise LabError(
            f"the {split} data have {counted(n, 'sample')} for {n_ranks} processes, and "
            f"each needs one. Use trainer.devices={n}"
        )
    seed = int(os.environ.get("PL_GLOBAL_SEED", 0))  # of `seed_everything`, as Lightning takes it
    place = (seed, rank, n_ranks)
    mine = copy(dataloader)
    mine._iterator = None  # of workers that stay: it gives the other loader's samples
    # `DataLoader.__setattr__` refuses them.
    parts = vars(mine)
    parts["sampler"] = SampleShare(sampler, *place)
    if type(batches) is BatchSampler:
        parts["batch_sampler"] = SharedBatches(
            parts["sampler"], batches.batch_size, batches.drop_last
        )
    elif batches is not None:
        parts["batch_sampler"] = SampleShare(batches, *place)
    return mine


def with_indices(trainer: L.Trainer, dataloader: DataLoader) -> DataLoader:
    """A copy of a loader for a prediction, which divides its samples among the processes, and notes
    which a batch holds.

    `_PredictionLoop` reads them from an `_IndexBatchSamplerWrapper`.
    """
    is_divided = trainer._data_connector._requires_distributed_sampler(dataloader)
    mine = divided(trainer, dataloader, "predict") if is_divided else copy(dataloader)
    batches: Any = mine.batch_sampler
    if type(dataloader.batch_sampler) is BatchSampler:
        # In a prediction no sample is left out.
        batches = BatchSampler(batches.sampler, batches.batch_size, drop_last=False)
    if batches is not None:
        vars(mine)["batch_sampler"] = _IndexBatchSamplerWrapper(batches)
    return mine


def say_what_counts_twice(trainer: L.Trainer, loader: Any, split: str) -> None:
    """Says in one line what Lightning does not divide, and this file neither."""
    if not trainer._accelerator_connector.use_distributed_sampler:
        return  # the data divide themselves
    sampler: Any = getattr(loader, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        name = type(getattr(loader, "dataset", loader)).__name__
        print_line(
            trainer,
            f"{split}: each process reads all that {name} gives, unless it divides the samples itself",
        )
        return
    dataset: Any = sampler.dataset
    n_repeated = sampler.total_size - len(dataset)
    if n_repeated > 0:
        samples = counted(n_repeated, "sample")
        print_line(trainer, f"{split}: the DistributedSampler of the data counts {samples} twice")


def weighted(compute: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Replaces `_ResultMetric.compute`."""

    def compute_weighted(result: Any) -> Tensor:
        sync = result.meta.sync
        if not (result.is_tensor and result.meta.is_mean_reduction and sync.should):
            return compute(result)
        total = sync(result.value.clone())
        n_samples = sync(result.cumulated_batch_size.double())
        return (total / n_samples).to(total.dtype)

    return compute_weighted
