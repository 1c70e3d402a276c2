"""How many samples a batch has, asked of who knows: the loader that cut it, else Lightning's rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.trainer.states import RunningStage
from torch import Tensor
from torch.utils.data import DataLoader, default_collate, default_convert

from ...machine.text_formats import and_more
from ..exact.plain_loaders import flat_loaders, samples_cut

OF_TORCH = (default_collate, default_convert)


def n_samples_of(trainer: L.Trainer, batch: Any, loader_number: int = 0) -> int | None:
    """Samples in the batch at hand, within a hook of Lightning for it; None: nobody knows.

    A loader counts what it cut, whatever a transform or `collate_fn` made of it; but where one of the
    user's own made fewer rows, and nothing that is as long as the samples, it may have dropped some,
    and nobody knows. Other iterables: the first length of the batch's tensors, if they agree.

    Args:
        loader_number: of the validation or test loaders.
    """
    loaders = loaders_of_stage(trainer)
    if trainer.state.stage is not RunningStage.TRAINING:
        loaders = flat_loaders(loaders)
        loaders = loaders[loader_number] if loader_number < len(loaders) else None
    cut = samples_cut(loaders)
    if cut and isinstance(loaders, DataLoader) and loaders.collate_fn not in OF_TORCH:
        n_rows = the_same(first_lengths(batch))
        if n_rows is not None and n_rows < cut and not holds_length(batch, cut):
            return None
    if cut is None and isinstance(loaders, list | tuple | Mapping):
        cut = the_same(samples_cut(loader) for loader in flat_loaders(loaders))
    return cut if cut is not None else the_same(first_lengths(batch))


def loaders_of_stage(trainer: L.Trainer) -> Any:
    """As the data gave them: one, or a list or dict of several."""
    if trainer.state.stage is RunningStage.TRAINING:  # `trainer.training` compares texts
        return trainer.train_dataloader
    return trainer.test_dataloaders if trainer.testing else trainer.val_dataloaders


def the_same(numbers: Iterable[int | None]) -> int | None:
    """The number that all of them are; None if they differ, or there is none."""
    different = set(numbers)
    return different.pop() if len(different) == 1 else None


def first_lengths(batch: Any) -> list[int]:
    """The first length of each tensor in a batch, which is Lightning's rule too. (Lightning takes
    the first of them if they differ.)"""
    if isinstance(batch, Tensor):
        return [batch.shape[0]] if batch.ndim else []
    lengths = []
    for part in parts_of(batch):
        lengths += first_lengths(part)
    return lengths


def holds_length(batch: Any, n: int) -> bool:
    """Whether one of a batch's tensors or lists has n rows, such as a list of images of any size."""
    if isinstance(batch, Tensor):
        return batch.ndim > 0 and len(batch) == n
    is_long = isinstance(batch, list | tuple) and len(batch) == n
    return is_long or any(holds_length(part, n) for part in parts_of(batch))


def parts_of(batch: Any) -> Iterable[Any]:
    if isinstance(batch, list | tuple):
        return batch
    if isinstance(batch, Mapping):
        return batch.values()
    if is_dataclass(batch) and not isinstance(batch, type):
        return [getattr(batch, field.name) for field in fields(batch)]
    return ()


def describe_lengths(batch: Any) -> str:
    """Why the samples of a batch are not known."""
    lengths = list(dict.fromkeys(first_lengths(batch)))
    if not lengths:
        return "it holds no tensors"
    if len(lengths) == 1:
        return f"its collate_fn made {lengths[0]} rows of more samples"
    return f"the first lengths of its tensors are {and_more(lengths, 4)}"
