"""`lab bench --lr`: the loss while the learning rate rises."""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, dataclass
from typing import Any, cast

import lightning.pytorch as L
import torch
from omegaconf import DictConfig, OmegaConf

from ..config.compose import compose
from ..errors import LabError
from ..project import Project
from .measure import build_bench
from .plot import Picture
from .report import BenchReport

LEAST_EXPONENT = -7  # the rates rise from 1e-7 to 1
SMOOTHING = 0.9  # weight of the losses before, in the mean


@dataclass(frozen=True)
class LossCurve:
    """Smoothed losses at rising learning rates, and the rate at which the loss falls fastest."""

    lr: list[float]
    loss: list[float]
    suggestion: float


def find_learning_rate(project: Project, overrides: list[str], n_steps: int) -> BenchReport:
    config = compose(project, overrides).config
    curve = loss_curve(config, max(100, n_steps))
    points = list(zip(curve.lr, curve.loss, strict=True))
    best = f"{curve.suggestion:.1e}"
    lines = ["        lr  loss"]
    lines += [f"{rate:>10.1e}  {loss:.4f}" for rate, loss in points[::6]]
    lines += [
        f"The loss falls fastest at {best}. Nothing was changed; to try it: optimizer.lr={best}"
    ]
    picture = Picture("learning rate", "loss", {"loss": points}, marked=curve.suggestion)
    return BenchReport(asdict(curve), "\n".join(lines), picture)


def loss_curve(config: DictConfig, n_steps: int) -> LossCurve:
    """Trains `n_steps` steps, each with a higher learning rate.

    Lightning's lr_find does the same for a rate that is an attribute of the task.
    Here it belongs to the optimizer.
    """
    exponents = [LEAST_EXPONENT * (1 - i / (n_steps - 1)) for i in range(n_steps)]
    ramp = LearningRateRamp([10**exponent for exponent in exponents])
    one_device = {"trainer": {"devices": 1, "accumulate_grad_batches": 1}}
    config = cast("DictConfig", OmegaConf.merge(config, one_device))
    with tempfile.TemporaryDirectory() as temporary:
        bench = build_bench(config, temporary, [ramp])
        if not bench.task.automatic_optimization:
            raise LabError(
                "--lr needs the loss that training_step returns, "
                "but this task steps its optimizers by itself"
            )
        bench.trainer.fit(bench.task, datamodule=bench.data)
    losses = smooth(torch.stack(ramp.losses).tolist())
    return LossCurve(ramp.rates, losses, steepest(ramp.rates, losses))


class LearningRateRamp(L.Callback):
    """Sets the learning rate of each step, keeps its loss, and stops after the last rate."""

    def __init__(self, rates: list[float]) -> None:
        self.rates = rates
        self.losses: list[torch.Tensor] = []

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        rate = self.rates[len(self.losses)]
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def on_train_batch_end(
        self, trainer: L.Trainer, task: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.losses.append(outputs["loss"].detach())
        trainer.should_stop = len(self.losses) == len(self.rates)


def smooth(losses: list[float]) -> list[float]:
    """Exponential mean of the losses so far, without the bias of its beginning."""
    smoothed = []
    mean = 0.0
    for i, loss in enumerate(losses):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smoothed.append(mean / (1 - SMOOTHING ** (i + 1)))
    return smoothed


def steepest(rates: list[float], losses: list[float]) -> float:
    """The rate around which the loss falls most over ten steps, before its lowest value."""
    lowest = losses.index(min(filter(math.isfinite, losses)))
    end = max(11, min(lowest, len(losses) - 5))
    best = max(range(10, end), key=lambda i: losses[i - 5] - losses[i + 5])
    return rates[best]
