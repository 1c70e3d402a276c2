"""torch's own DataLoader, made to resume in the middle of an epoch as if nothing had stopped it, and
to say how many samples it has cut.

The order of an epoch, and what workers draw for a batch, follow from the seed, the epoch and the
number of the batch. With torch alone they follow from all that was drawn before, which a new process
cannot repeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import lightning.pytorch as L
import torch
from lightning.fabric.utilities.data import sized_len
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, IterableDataset

from ...hdf5.read.datamodule import data_ranks
from ..lightning_internals import cycles_shorter_loaders, is_of_training_loop
from ..lightning_internals_torch import iterations_replaced
from .random_state import SeededOrder, random_numbers_of

TRAIN, VAL, TEST = 0, 1, 2  # part of the entropy of a loader


@dataclass(frozen=True)
class LoaderPlace:
    """Where an iteration of a loader begins."""

    entropy: tuple[int, ...]  # what is random in the order, the same on all ranks
    n_skipped: int  # batches that were trained already


class PlainLoaders(L.Callback):
    """Lets each DataLoader of a fit begin where the fit is, without drawing from the generators that
    the training draws from. Loaders with a `state_dict` of their own know their place, and stay as
    they are.

    It also knows how many samples a DataLoader has cut for the batch at hand, in every stage.

    Args:
        seed: of the run, >= 0; None: each DataLoader keeps its order.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.replacements = ExitStack()
        # Weak: a loader that is made anew takes the workers of the one before with it.
        self.orders: WeakKeyDictionary[DataLoader, SeededOrder] = WeakKeyDictionary()
        self.begun: WeakSet[DataLoader] = WeakSet()  # by the training loop of this fit

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "predict":
            return
        self.replacements.enter_context(
            iterations_replaced(partial(self.iterate, trainer), self.order_of)
        )

    def teardown(self, *_: Any, **__: Any) -> None:
        self.replacements.close()
        self.orders = WeakKeyDictionary()
        self.begun = WeakSet()

    on_exception = teardown

    def order_of(self, loader: DataLoader) -> SeededOrder | None:
        return self.orders.get(loader)

    def iterate(
        self,
        trainer: L.Trainer,
        loader: DataLoader,
        iterate: Callable[[DataLoader], Iterator[Any]],
    ) -> Iterator[Any]:
        """What `iter(loader)` gives within the stage."""
        if not any(loader is one for _, _, one in plain_loaders(trainer)):
            return iterate(loader)
        if self.seed is None or trainer.state.fn != "fit" or draws_as_torch(trainer):
            return self.counted_batches(loader, iterate, None)
        itself: list[Iterator[Any]] = []
        itself.append(self.batches(trainer, loader, iterate, itself, self.seed))
        return itself[0]

    def batches(
        self,
        trainer: L.Trainer,
        loader: DataLoader,
        iterate: Callable[[DataLoader], Iterator[Any]],
        itself: list[Iterator[Any]],
        seed: int,
    ) -> Iterator[Any]:
        """Decides the place when the first batch is asked for: Lightning makes iterators before it
        knows the epoch.

        Args:
            itself: holds the iterator that this function gives.
        """
        place = self.place_of(trainer, loader, itself[0], seed)
        with random_numbers_of(place.entropy):
            batches = self.counted_batches(loader, iterate, place, rank=data_ranks(trainer)[0])
        yield from batches

    def counted_batches(
        self,
        loader: DataLoader,
        iterate: Callable[[DataLoader], Iterator[Any]],
        place: LoaderPlace | None,
        rank: int = 0,
    ) -> Iterator[Any]:
        """The batches from `place` on; before each is given, its samples are noted."""
        n_skipped = place.n_skipped if place else 0
        if isinstance(loader.dataset, IterableDataset):
            batches = iterate(loader)
            for _ in range(n_skipped):
                next(batches, None)
            return batches
        order = self.set_order(loader, place, rank)
        batches = iterate(loader)
        return with_sizes(loader, batches, order.sizes) if gives_in_order(loader) else batches

    def place_of(
        self, trainer: L.Trainer, loader: DataLoader, iterator: Iterator[Any], seed: int
    ) -> LoaderPlace:
        """Batches that were trained before the stop are left out by the training loop alone, and
        once: whoever else iterates the loader gets all of them."""
        stage = TRAIN if trainer.training else VAL
        places = [(of, n) for of, n, one in plain_loaders(trainer) if loader is one]
        stage, n = next((place for place in places if place[0] == stage), places[0])
        if stage == VAL:
            return LoaderPlace((seed, VAL, n, trainer.global_step), 0)
        progress = trainer.fit_loop.epoch_loop.batch_progress
        n_done = 0 if progress.is_last_batch else progress.current.ready
        n_cycles = 0
        if cycles_shorter_loaders(trainer) and hasattr(loader.dataset, "__len__"):
            n_cycles, n_done = divmod(n_done, len(loader))
        is_first = loader not in self.begun and is_of_training_loop(trainer, iterator)
        if is_first:
            self.begun.add(loader)
        return LoaderPlace(
            (seed, TRAIN, n, trainer.current_epoch, n_cycles), n_done if is_first else 0
        )

    def set_order(self, loader: DataLoader, place: LoaderPlace | None, rank: int) -> SeededOrder:
        if loader not in self.orders:
            sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
            self.orders[loader] = SeededOrder(sampler, own_generators(loader), rank)
        order = self.orders[loader]
        order.entropy = place.entropy if place else None
        order.n_skipped = place.n_skipped if place else 0
        return order


def draws_as_torch(trainer: L.Trainer) -> bool:
    """Whether the data ask for the random numbers of a script: order and seeds of workers are drawn
    from torch's generator, as a DataLoader alone draws them."""
    return getattr(getattr(trainer, "datamodule", None), "draws", None) == "torch"


def plain_loaders(trainer: L.Trainer) -> Iterator[tuple[int, int, DataLoader]]:
    """The DataLoaders of a stage that do not know their place: TRAIN, VAL or TEST, number, loader."""
    of_stages = (
        (TRAIN, trainer.train_dataloader),
        (VAL, trainer.val_dataloaders),
        (TEST, trainer.test_dataloaders),
    )
    for stage, loaders in of_stages:
        for n, loader in enumerate(flat_loaders(loaders)):
            if isinstance(loader, DataLoader) and not hasattr(loader, "state_dict"):
                yield stage, n, loader


def flat_loaders(loaders: Any) -> list[Any]:
    return [] if loaders is None else CombinedLoader(loaders).flattened


# How many samples a loader has cut for the batch that it gave last.

CUT: WeakKeyDictionary[DataLoader, int | None] = WeakKeyDictionary()


def gives_in_order(loader: DataLoader) -> bool:
    """Whether its batches come as they were asked for, one for each list of indices, and no sooner
    than they are used: Lightning asks loaders without a length for one batch ahead."""
    has_own_iterator = type(loader).__iter__ is not DataLoader.__iter__
    return (
        not has_own_iterator and getattr(loader, "in_order", True) and sized_len(loader) is not None
    )


def with_sizes(
    loader: DataLoader, batches: Iterator[Any], sizes: deque[int | None]
) -> Iterator[Any]:
    for batch in batches:
        CUT[loader] = sizes.popleft() if sizes else None
        yield batch


def samples_cut(loader: Any) -> int | None:
    """Samples of the batch that a loader gave last, as it cut them; None: it does not know."""
    if isinstance(loader, DataLoader):
        return CUT.get(loader)
    return getattr(loader, "n_samples", None) or None


def own_generators(loader: DataLoader) -> list[torch.Generator]:
    """Generators that the user gave to a DataLoader or to its sampler, each once."""
    parts = (loader, loader.sampler, loader.batch_sampler)
    generators = (getattr(part, "generator", None) for part in parts)
    return list({id(one): one for one in generators if isinstance(one, torch.Generator)}.values())
