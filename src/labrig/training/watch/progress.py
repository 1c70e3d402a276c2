"""Progress of a training: lines for a log, and Lightning's bar on a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import EarlyStopping, Timer, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from omegaconf import DictConfig

from ...record.read.metric_names import split_of
from ..exact.steps import ends_epoch, steps_done
from .first_lines import FirstLines
from .means import LogMeans
from .optimizer_watch import OptimizerWatch
from .print_line import print_line
from .standing import Pace, of_total, total_epochs

HIDDEN = ("test/", "speed/")  # metrics that an epoch's line does not show


class EpochLines(L.Callback):
    """The first rank prints a line after each epoch, and why the training ended early.

    Metrics of validation stand in the lines of epochs that were validated.
    """

    validated_epoch: int | None = None

    def on_train_start(self, *_: Any) -> None:
        # A training that resumes within an epoch has no on_train_epoch_start.
        self.began_s = time.monotonic()

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.began_s = time.monotonic()

    def on_validation_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.metrics_before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """A validation within an epoch has a line of its own."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self.validated_epoch = trainer.current_epoch
        if ends_epoch(trainer):
            return
        validated = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if value is not self.metrics_before.get(name)
        }
        if validated:
            step = f"validation after step {steps_done(trainer)}"
            print_line(trainer, "  ".join([step, *shown_metrics(validated)]))

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        is_validated = self.validated_epoch == trainer.current_epoch
        metrics = shown_metrics(
            {
                name: value
                for name, value in trainer.callback_metrics.items()
                if is_validated or split_of(name) != "val"
            }
        )
        epoch = f"epoch {of_total(trainer.current_epoch + 1, total_epochs(trainer))}"
        seconds = time.monotonic() - self.began_s
        print_line(trainer, "  ".join([epoch, *metrics, f"({seconds:.1f} s)"]))

    def on_train_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.should_stop:
            reason = "; ".join(stop_reasons(trainer)) or "a callback asked for it"
            print_line(trainer, f"stopped early after epoch {trainer.current_epoch}: {reason}")


def shown_metrics(metrics: Mapping[str, Any]) -> list[str]:
    """Names and values, sorted, as text."""
    return [
        f"{name} {float(value):.4f}"
        for name, value in sorted(metrics.items())
        if not name.startswith(HIDDEN) and not name.endswith("_step")
    ]


def stop_reasons(trainer: L.Trainer) -> list[str]:
    """Why Lightning's callbacks ended a training before its last epoch."""
    reasons = []
    for callback in trainer.callbacks:
        if isinstance(callback, Timer) and (callback.time_remaining() or 1) <= 0:
            reasons.append("the time of the Timer is over (trainer.max_time)")
        if isinstance(callback, EarlyStopping):
            message = getattr(callback, "stopping_reason_message", None) or ""
            reasons.append(message.removesuffix("Signaling Trainer to stop.").rstrip(". "))
    return [reason for reason in reasons if reason]


class StepLines(L.Callback):
    """The first rank prints a line every `every_s` seconds: where the training or a validation is.

    Args:
        every_s: seconds, >= 0. A batch that takes longer is not interrupted.
        pace: knows where the training is.
    """

    def __init__(self, every_s: float, pace: Pace) -> None:
        self.every_s = every_s
        self.pace = pace
        self.printed_s = 0.0

    def on_train_start(self, *_: Any) -> None:
        self.printed_s = time.monotonic()

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self._is_due() and trainer.is_global_zero:
            facts = self.pace.standing(trainer).facts()
            print_line(trainer, "  ".join(f"{name} {value}" for name, value in facts.items()))

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        n_batches = trainer.num_val_batches[dataloader_idx]
        self._print_evaluation(trainer, "validation", batch_idx, n_batches)

    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        n_batches = trainer.num_test_batches[dataloader_idx]
        self._print_evaluation(trainer, "test", batch_idx, n_batches)

    def _print_evaluation(
        self, trainer: L.Trainer, name: str, batch_idx: int, n_batches: float
    ) -> None:
        if self._is_due():
            total = int(n_batches) if math.isfinite(n_batches) else None
            print_line(trainer, f"{name}: batch {of_total(batch_idx + 1, total)}")

    def _is_due(self) -> bool:
        if time.monotonic() - self.printed_s < self.every_s:
            return False
        self.printed_s = time.monotonic()
        return True


class Bar(TQDMProgressBar):
    """Lightning's progress bar, drawn once a second at most, because drawing takes time.

    Behind the bar of the epoch stand the facts of a line of the log.

    Args:
        pace: knows where the training is.
    """

    drawn_s = 0.0

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace

    def init_train_tqdm(self) -> Tqdm:
        bar = super().init_train_tqdm()
        bar.leave = False
        # Without the time and rate of an epoch, so that the facts fit into 80 columns.
        bar.bar_format = "{desc}:{bar}| {n_fmt}/{total_fmt}{postfix}"
        return bar

    def on_train_epoch_start(self, trainer: L.Trainer, *args: Any) -> None:
        super().on_train_epoch_start(trainer, *args)
        # Counted from 1, as in the lines.
        self.train_progress_bar.set_description(f"epoch {trainer.current_epoch + 1}")

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, pl_module)
        # The id of the run, which was printed already.
        metrics.pop("v_num", None)
        if not trainer.training or not self.pace.n_batches:
            return metrics
        facts = self.pace.standing(trainer).facts()
        # It stands in front of the bar.
        facts.pop("epoch")
        return facts | metrics

    def on_train_batch_end(self, *args: Any) -> None:
        if self._is_due():
            super().on_train_batch_end(*args)

    def on_validation_batch_end(self, *args: Any) -> None:
        if self._is_due():
            super().on_validation_batch_end(*args)

    def _is_due(self) -> bool:
        if time.monotonic() - self.drawn_s < 1:
            return False
        self.drawn_s = time.monotonic()
        return True


def build_progress(
    log: DictConfig,
    callbacks: list[L.Callback],
    means: LogMeans,
    watch: OptimizerWatch,
) -> list[L.Callback]:
    """The callbacks that show progress.

    Args:
        log: the section `log`. `progress`: True, False, or "auto": True on a terminal.
        callbacks: the user's; a progress bar among them takes the place of ours.
        means, watch: what the lines show.
    """
    has_own_bar = any(isinstance(callback, L.callbacks.ProgressBar) for callback in callbacks)
    if has_own_bar:
        return [FirstLines(), EpochLines()]
    pace = Pace(means.train, watch)
    shows_bar = sys.stdout.isatty() if log.progress == "auto" else log.progress
    shown = Bar(pace) if shows_bar else StepLines(log.get("every_s", 60), pace)
    # The pace before what shows it.
    return [pace, shown, FirstLines(), EpochLines()]
