"""A step over several batches changes the weights as one batch of the same samples would.

Lightning divides the loss of each batch by `accumulate_grad_batches`, and DDP averages over processes:
a last group with fewer batches counts too little, and a smaller batch as much as a whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from omegaconf import DictConfig
from torch import Tensor

from ...errors import LabError
from ...hdf5.read.loader import Loader
from ..watch.batch_size import n_samples_of
from ..watch.means import BATCH_SIZE, values_of
from ..watch.print_line import print_line
from .settings import n_processes_of

Step = Callable[..., Any]
LEAST = 1e-6  # weight of a batch: one without tokens has no gradient, and divides by no zero


class AroundStep(L.Callback):
    """Puts a function around `training_step` as long as the training goes."""

    def around(self, step: Step) -> Step:
        """What is called in place of `training_step`."""
        raise NotImplementedError

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # An attribute of this one object, in front of the method of its class
        pl_module.training_step = self.around(pl_module.training_step)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        vars(pl_module).pop("training_step", None)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.on_train_end(trainer, pl_module)


class Overfit(AroundStep):
    """Gives `training_step` the first batch of the training in place of each batch."""

    def around(self, step: Step) -> Step:
        first: list[Any] = []

        def step_on_first(batch: Any, *arguments: Any) -> Any:
            first[:] = first or [batch]
            return step(first[0], *arguments)

        return step_on_first


class WholeGroups(AroundStep):
    """The gradient of a group of batches is that of its mean: sum(weight * gradient) / sum(weight), over
    accumulated batches and processes.

    The weight of a batch is the `batch_size` that `training_step` returns (tokens, pixels), a tensor
    that stays on its device. Without one it is the number of samples, of accumulated batches only; then
    gradients are touched only where Lightning's division is another one.
    It holds for a loss that is a mean over what the weight counts.
    """

    def __init__(self) -> None:
        self.returned: Any = None  # the weight of the batch at hand that its step has returned
        self.by_step: bool | None = None  # whether the steps return it; None: not known yet
        self.has_told = False
        self._begin_group()

    def _begin_group(self) -> None:
        self.weights: list[Any] = []  # of each batch of the group, on this process
        self.of_all: list[float] = []  # and on all processes, where the loader knows them
        self.first: Any = 1.0  # weight of the first batch, on all processes

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.n_readers = trainer.world_size  # processes over which weights are summed
        if pl_module.automatic_optimization:
            super().on_train_start(trainer, pl_module)

    def around(self, step: Step) -> Step:
        @wraps(step)
        def step_with_weight(*args: Any, **kwargs: Any) -> Any:
            outputs = step(*args, **kwargs)
            self.returned = values_of(outputs).get(BATCH_SIZE)
            return outputs

        return step_with_weight

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._begin_group()
        self.n_samples = float(n_samples_of(trainer, batch) or 1)
        self.has_weight = False

    def on_before_backward(
        self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor
    ) -> None:
        """Scales the loss by its weight relative to the first batch of the group on all processes."""
        if not pl_module.automatic_optimization or trainer.strategy.handles_gradient_accumulation:
            return
        if self.by_step is None:
            self._agree(trainer)
        if not self.by_step and trainer.accumulate_grad_batches == 1:
            return
        if not self.has_weight:  # an optimizer may call its closure again
            self.has_weight = True
            self.weights.append(self._weight(trainer))
            if len(self.weights) == 1:
                self.first = self._sum_of_all(trainer)
        factor = self.weights[-1] * self.n_readers / self.first
        if loss.requires_grad and not is_one(factor):
            loss.register_hook(lambda gradient: (gradient * factor).to(gradient.dtype))

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any
    ) -> None:
        """Divides by the weight of the whole group, after the processes have shared the gradients."""
        n_batches = trainer.accumulate_grad_batches
        if not self.weights or n_batches == 1:
            return
        total = self._sum_of_all(trainer)
        factor = n_batches * self.first / total
        multiply_gradients(pl_module, factor)
        if not is_one(factor) and not self.by_step and not self.has_told:
            self.has_told = True
            print_line(
                trainer,
                f"the last step of an epoch has {total:.0f} samples, in {len(self.weights)} of "
                f"{n_batches} batches:\n"
                f"its gradient is their mean, where the loss is a mean (Lightning divides by {n_batches})",
            )

    def _agree(self, trainer: L.Trainer) -> None:
        """All processes learn whether the steps of any return a weight."""
        has_weight = self.returned is not None
        self.by_step = trainer.strategy.reduce_boolean_decision(has_weight, all=False)
        if self.by_step:
            print_line(trainer, "a step weighs its batches by the batch_size of training_step")

    def _weight(self, trainer: L.Trainer) -> Any:
        """Of the batch at hand, on this process."""
        if not self.by_step:
            if isinstance(loader := trainer.train_dataloader, Loader):
                self.of_all.append(float(loader.n_samples_of_all))
                self.n_readers = loader.order.world_size  # tensor parallel ones read the same
            return self.n_samples
        if self.returned is None:
            raise LabError(
                "training_step returns batch_size in some steps, or on some processes, only. It weighs the "
                "gradients of a step, so return it always"
            )
        device = trainer.strategy.root_device
        weight = torch.as_tensor(self.returned, dtype=torch.float32, device=device)
        return weight.detach().reshape(()).clamp(min=LEAST)

    def _sum_of_all(self, trainer: L.Trainer) -> Any:
        """What the batches of the group weigh so far, on all processes."""
        total = sum(self.of_all or self.weights)
        if self.of_all or trainer.world_size == 1:
            return total
        shared = torch.as_tensor(total, device=trainer.strategy.root_device).clone()
        torch.distributed.all_reduce(shared)
        return shared if self.by_step else shared.item()


def is_one(factor: Any) -> bool:
    """Whether it changes nothing; a tensor is not asked, since that would wait for the device."""
    return not isinstance(factor, Tensor) and factor == 1


def multiply_gradients(module: L.LightningModule, factor: Any) -> None:
    if is_one(factor):
        return
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def weighs_batches(config: DictConfig, callbacks: list[L.Callback]) -> bool:
    """Whether a step may have several batches, one after the other or on several processes."""
    has_schedule = any(isinstance(one, GradientAccumulationScheduler) for one in callbacks)
    has_groups = has_schedule or config.trainer.accumulate_grad_batches > 1
    return has_groups or n_processes_of(config) > 1
