"""A step over accumulated batches changes the weights as one batch of the same samples would.

Lightning divides the loss of each batch by `accumulate_grad_batches`: a last group with fewer batches
counts too little, and a smaller batch as much as a whole one.
"""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from omegaconf import DictConfig

from ...hdf5.read.loader import Loader
from ..watch.batch_size import n_samples_of
from ..watch.print_line import print_line


class WholeGroups(L.Callback):
    """Weighs the batches of a group by their samples, and divides by those of the group.

    Gradients are touched only where Lightning's division is another one. It holds for a loss that is a
    mean over samples.
    """

    def __init__(self) -> None:
        self.has_told = False
        self._begin_group()

    def _begin_group(self) -> None:
        self.sizes: list[float] = []  # samples of each batch of the group, on this process
        self.of_all: list[float] = []  # and on all processes, where the loader knows them
        self.is_weighed = True

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._begin_group()
        self.sizes.append(float(n_samples_of(trainer, batch) or 1))
        loader = trainer.train_dataloader
        if isinstance(loader, Loader):
            self.of_all.append(float(loader.n_samples_of_all))
        self.is_weighed = False

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        """The gradients that are there become those of batches of the size of this one."""
        if not self.is_weighed and len(self.sizes) > 1:
            multiply_gradients(pl_module, self.sizes[-2] / self.sizes[-1])
        self.is_weighed = True

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any
    ) -> None:
        n = trainer.accumulate_grad_batches
        if n == 1 or trainer.strategy.handles_gradient_accumulation:
            return
        last, total = self._counts(trainer)
        factor = n * last / total
        multiply_gradients(pl_module, factor)
        if factor != 1 and not self.has_told:
            self.has_told = True
            print_line(
                trainer,
                f"the last step of an epoch has {total:.0f} samples, in {len(self.sizes)} of {n} batches:\n"
                f"its gradient is their mean, where the loss is a mean (Lightning divides by {n})",
            )

    def _counts(self, trainer: L.Trainer) -> tuple[float, float]:
        """Samples of the last batch and of the group, the same on all processes."""
        if self.of_all or trainer.world_size == 1:
            sizes = self.of_all or self.sizes
            return sizes[-1], sum(sizes)
        counts = torch.tensor(
            [self.sizes[-1], sum(self.sizes)], device=trainer.strategy.root_device
        )
        torch.distributed.all_reduce(counts)
        last, total = counts.tolist()
        return last, total


def multiply_gradients(module: L.LightningModule, factor: float) -> None:
    if factor == 1:
        return
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def accumulates(config: DictConfig, callbacks: list[L.Callback]) -> bool:
    """Whether a step may have several batches."""
    has_schedule = any(isinstance(one, GradientAccumulationScheduler) for one in callbacks)
    return has_schedule or config.trainer.accumulate_grad_batches > 1
