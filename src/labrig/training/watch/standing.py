"""Where a training stands: step, epoch, loss, learning rate, samples per second, time left."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from ...hdf5.read.datamodule import data_ranks
from ...machine.text_formats import format_duration
from ..exact.steps import steps_done
from .means import Means
from .optimizer_watch import OptimizerWatch


@dataclass(frozen=True)
class Standing:
    """What a line of the log says; None: not known."""

    step: int
    n_steps: int | None
    epoch: int  # from 1
    n_epochs: int | None
    loss: float | None
    rate: float | None  # of the optimizer's last step
    samples_per_s: float | None  # of all processes, without validation
    left_s: float | None

    def facts(self) -> dict[str, str]:
        """Those that are known, as text."""
        facts = {
            "step": of_total(self.step, self.n_steps),
            "epoch": of_total(self.epoch, self.n_epochs),
        }
        if self.loss is not None:
            facts["loss"] = f"{self.loss:.4g}"
        if self.rate is not None:
            facts["lr"] = f"{self.rate:.3g}"
        if self.samples_per_s is not None:
            facts["samples/s"] = f"{self.samples_per_s:,.0f}"
        if self.left_s is not None:
            facts["left"] = format_duration(self.left_s)
        return facts


class Pace(L.Callback):
    """Counts samples and time; `standing` puts them together with the loss and the rate.

    Nothing is read from the device before `standing` asks for it.

    Args:
        means: those of the training since the last row of metrics.jsonl.
        watch: knows the learning rate.
    """

    def __init__(self, means: Means, watch: OptimizerWatch) -> None:
        self.means = means
        self.watch = watch
        self.n_batches = 0  # of this attempt

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.n_batches += 1
        if self.n_batches == 1:
            # The first step takes longer: kernels are chosen, workers start.
            self.first_step = steps_done(trainer)
            self.first_s = time.monotonic()
            self._begin_interval()
            return
        self.n_samples += self.means.n_samples

    def on_validation_start(self, *_: Any) -> None:
        self.validation_began_s = time.monotonic()

    def on_validation_end(self, *_: Any) -> None:
        if self.n_batches:
            # The samples per second are those of the training.
            self.began_s += time.monotonic() - self.validation_began_s

    def _begin_interval(self) -> None:
        self.began_s = time.monotonic()
        self.n_samples = 0

    def standing(self, trainer: L.Trainer) -> Standing:
        """After a batch: where the training stands. The next one counts samples from here."""
        now_s = time.monotonic()
        step = steps_done(trainer)
        n_steps = total_steps(trainer)
        left_s = None
        if n_steps is not None and step > self.first_step:
            step_s = (now_s - self.first_s) / (step - self.first_step)
            left_s = step_s * max(0, n_steps - step)
        samples_per_s = None
        if self.n_samples:
            samples_per_s = (
                self.n_samples * data_ranks(trainer)[1] / max(now_s - self.began_s, 1e-9)
            )
        standing = Standing(
            step=step,
            n_steps=n_steps,
            epoch=trainer.current_epoch + 1,
            n_epochs=total_epochs(trainer),
            loss=self._loss(trainer),
            rate=self.watch.rate,
            samples_per_s=samples_per_s,
            left_s=left_s,
        )
        self._begin_interval()
        return standing

    def _loss(self, trainer: L.Trainer) -> float | None:
        """The mean since the last row of metrics.jsonl; right after a row, that of the row."""
        loss = self.means.mean_so_far("loss")
        if loss is not None:
            return loss
        of_row = trainer.callback_metrics.get("train/loss")
        return None if of_row is None else float(of_row)


def total_steps(trainer: L.Trainer) -> int | None:
    """Optimizer steps of the whole training; None when only the data know its end."""
    try:
        n_steps = trainer.estimated_stepping_batches
    except MisconfigurationException:
        return None  # epochs accumulate over different numbers of batches
    return int(n_steps) if n_steps != -1 and math.isfinite(n_steps) else None


def total_epochs(trainer: L.Trainer) -> int | None:
    """Epochs of the whole training; None when steps limit it."""
    return trainer.max_epochs if (trainer.max_epochs or 0) > 0 else None


def of_total(n: int, total: int | None) -> str:
    """`3/20`, or `3` of an unknown number."""
    return str(n) if total is None else f"{n}/{total}"
