# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Learning rate schedules."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import lightning.pytorch as L
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

STEP_ARGUMENTS = (
    "n_steps",
    "total_steps",
    "T_max",
)  # what schedules call the number of optimizer steps


def warmup_cosine(
    optimizer: Optimizer, n_steps: int, warmup_steps: int = 0, final_ratio: float = 0.0
) -> LambdaLR:
    """Linear rise over `warmup_steps`, then half a cosine down to `final_ratio` times the optimizer's lr at `n_steps`.

    A closed form of the step (Loshchilov & Hutter, arXiv:1608.03983, without restarts), so that a run that is extended
    goes on along the longer curve.
    """

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        progress = min(1.0, (step - warmup_steps) / max(1, n_steps - warmup_steps))
        return final_ratio + (1 - final_ratio) * (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, factor)


def scheduled(
    optimizer: Optimizer, schedule: Callable[[Optimizer], LRScheduler] | None, trainer: L.Trainer
) -> dict[str, Any]:
    """What configure_optimizers returns: the optimizer and a `_partial_` schedule, stepped after each optimizer step.

    The number of optimizer steps of the run is filled in where the schedule takes one and the configuration does not
    say it. None means a constant learning rate.
    """
    if schedule is None:
        return {"optimizer": optimizer}
    given = schedule.keywords if isinstance(schedule, partial) else {}
    taken = inspect.signature(
        schedule.func if isinstance(schedule, partial) else schedule
    ).parameters
    name = next((name for name in STEP_ARGUMENTS if name in taken and name not in given), None)
    if name is not None:
        schedule = partial(schedule, **{name: max(1, int(trainer.estimated_stepping_batches))})
    return {
        "optimizer": optimizer,
        "lr_scheduler": {"scheduler": schedule(optimizer), "interval": "step"},
    }
