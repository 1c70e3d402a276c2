"""torch's own DataLoader, made to resume in the middle of an epoch as if nothing had stopped it.

The order of an epoch, and what workers draw for a batch, follow from the seed, the epoch and the
number of the batch. With torch alone they follow from all that was drawn before, which a new process
cannot repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, IterableDataset

from ...hdf5.read.datamodule import data_ranks
from ..lightning_internals import cycles_shorter_loaders
from ..lightning_internals_torch import iterations_replaced
from .batch_seeds import SeededOrder
from .random_state import random_numbers_of

TRAIN, VAL = 0, 1  # part of the entropy of a loader


@dataclass(frozen=True)
class LoaderPlace:
    """Where an iteration of a loader begins."""

    entropy: tuple[int, ...]  # what is random in the order, the same on all ranks
    n_skipped: int  # batches that were trained already


class PlainLoaders(L.Callback):
    """Lets each DataLoader of a fit begin where the fit is, without drawing from the generators that
    the training draws from. Loaders with a `state_dict` of their own know their place, and stay as
    they are.

    Args:
        seed: of the run, >= 0.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.replacements = ExitStack()
        # Weak: a loader that is made anew takes the workers of the one before with it.
        self.orders: WeakKeyDictionary[DataLoader, SeededOrder] = WeakKeyDictionary()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit":
            self.replacements.enter_context(
                iterations_replaced(partial(self.iterate, trainer), self.order_of)
            )

    def teardown(self, *_: Any, **__: Any) -> None:
        self.replacements.close()
        self.orders = WeakKeyDictionary()

    on_exception = teardown

    def order_of(self, loader: DataLoader) -> SeededOrder | None:
        return self.orders.get(loader)

    def iterate(
        self,
        trainer: L.Trainer,
        loader: DataLoader,
        iterate: Callable[[DataLoader], Iterator[Any]],
    ) -> Iterator[Any]:
        """What `iter(loader)` gives within the fit."""
        is_ours = any(loader is one for _, _, one in plain_loaders(trainer))
        return self.batches(trainer, loader, iterate) if is_ours else iterate(loader)

    def batches(
        self,
        trainer: L.Trainer,
        loader: DataLoader,
        iterate: Callable[[DataLoader], Iterator[Any]],
    ) -> Iterator[Any]:
        """Decides the place when the first batch is asked for: Lightning makes iterators before it
        knows the epoch."""
        place = self.place_of(trainer, loader)
        with random_numbers_of(place.entropy):
            if isinstance(loader.dataset, IterableDataset):
                batches = iterate(loader)
                for _ in range(place.n_skipped):
                    next(batches, None)
            else:
                self.set_order(loader, place, data_ranks(trainer)[0])
                batches = iterate(loader)
        yield from batches

    def place_of(self, trainer: L.Trainer, loader: DataLoader) -> LoaderPlace:
        stage, n = next((stage, n) for stage, n, one in plain_loaders(trainer) if loader is one)
        if stage == VAL:
            return LoaderPlace((self.seed, VAL, n, trainer.global_step), 0)
        progress = trainer.fit_loop.epoch_loop.batch_progress
        n_done = 0 if progress.is_last_batch else progress.current.ready
        n_cycles = 0
        if cycles_shorter_loaders(trainer) and hasattr(loader.dataset, "__len__"):
            n_cycles, n_done = divmod(n_done, len(loader))
        return LoaderPlace((self.seed, TRAIN, n, trainer.current_epoch, n_cycles), n_done)

    def set_order(self, loader: DataLoader, place: LoaderPlace, rank: int) -> None:
        if loader not in self.orders:
            sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
            self.orders[loader] = SeededOrder(sampler, own_generators(loader), rank)
        order = self.orders[loader]
        order.entropy = place.entropy
        order.n_skipped = place.n_skipped


def plain_loaders(trainer: L.Trainer) -> Iterator[tuple[int, int, DataLoader]]:
    """The DataLoaders of a fit that do not know their place: TRAIN or VAL, number, loader."""
    of_stages = ((TRAIN, trainer.train_dataloader), (VAL, trainer.val_dataloaders))
    for stage, loaders in of_stages:
        flat = [] if loaders is None else CombinedLoader(loaders).flattened
        for n, loader in enumerate(flat):
            if isinstance(loader, DataLoader) and not hasattr(loader, "state_dict"):
                yield stage, n, loader


def own_generators(loader: DataLoader) -> list[torch.Generator]:
    """Generators that the user gave to a DataLoader or to its sampler, each once."""
    parts = (loader, loader.sampler, loader.batch_sampler)
    generators = (getattr(part, "generator", None) for part in parts)
    return list({id(one): one for one in generators if isinstance(one, torch.Generator)}.values())
