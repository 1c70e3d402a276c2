"""Learning rate schedules."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from ...errors import LabError
from ..trained.load import complete_load_from_checkpoint

# Tasks import this file: their own `load_from_checkpoint` works in a notebook, too.
complete_load_from_checkpoint()

# What schedules call the number of optimizer steps.
STEP_ARGUMENTS = ("n_steps", "total_steps", "T_max")


def warmup_cosine(
    optimizer: Optimizer, n_steps: int, warmup_steps: int = 0, final_ratio: float = 0.0
) -> LambdaLR:
    """Linear rise over `warmup_steps`, then half a cosine down to `final_ratio` at `n_steps`.

    The factor of the learning rate is a closed form of the step (Loshchilov & Hutter,
    arXiv:1608.03983, without restarts). So a run that is extended continues along the longer curve.
    """

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        progress = min(1.0, (step - warmup_steps) / max(1, n_steps - warmup_steps))
        return final_ratio + (1 - final_ratio) * (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, factor)


def scheduled(
    optimizer: Optimizer, schedule: Callable[[Optimizer], LRScheduler] | None, trainer: L.Trainer
) -> OptimizerLRScheduler:
    """What configure_optimizers returns: an optimizer, and a schedule that counts its steps.

    Args:
        optimizer: the optimizer.
        schedule: makes the schedule of an optimizer (`_partial_: true` in the configuration).
            If it takes the number of steps, and none is set, it gets that of the run.
            None: a constant learning rate.
        trainer: knows the number of optimizer steps of the run.

    Raises:
        LabError: the schedule wants that number, and nothing ends the run after so many steps.
    """
    if schedule is None:
        return {"optimizer": optimizer}
    name = missing_step_argument(schedule)
    if name is not None:
        n_steps = trainer.estimated_stepping_batches
        if not math.isfinite(n_steps) or n_steps < 0:
            raise LabError(
                f"the schedule wants {name}, the number of optimizer steps, and this training has "
                "none: its data has no length, or only a time ends it. "
                f"Set trainer.max_steps=N, schedule.{name}=N or schedule=constant"
            )
        schedule = partial(schedule, **{name: max(1, int(n_steps))})
    lr_scheduler: Any = {"scheduler": schedule(optimizer), "interval": "step"}
    return {"optimizer": optimizer, "lr_scheduler": lr_scheduler}


def missing_step_argument(schedule: Callable[[Optimizer], LRScheduler]) -> str | None:
    """The argument for the number of optimizer steps, if the schedule has one that is not set."""
    function: Callable[..., Any] = schedule
    arguments: dict[str, Any] = {}
    if isinstance(schedule, partial):
        function = schedule.func
        arguments = schedule.keywords
    for name in STEP_ARGUMENTS:
        if name in inspect.signature(function).parameters and name not in arguments:
            return name
    return None


# The callback behind `callbacks=lr_monitor`.


class LearningRates(LearningRateMonitor):
    """Lightning's LearningRateMonitor. Its values stand in the rows and the loggers, but they are no
    metrics: not in the line of an epoch, and not in the results of a run."""

    def on_train_batch_start(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        super().on_train_batch_start(trainer, *args, **kwargs)
        forget(trainer, self.lrs)

    def on_train_epoch_start(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        super().on_train_epoch_start(trainer, *args, **kwargs)
        forget(trainer, self.lrs)


def forget(trainer: L.Trainer, optimizers: dict[str, Any]) -> None:
    """Takes the values of these optimizers, which begin with their names, out of the metrics."""
    for name in list(trainer.callback_metrics):
        if name.startswith(tuple(optimizers)):
            del trainer.callback_metrics[name]
