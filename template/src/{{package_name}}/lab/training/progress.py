# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Progress of a training: a line for each epoch, and Lightning's bar on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import EarlyStopping, Timer, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm

HIDDEN = ("test/", "speed/")  # metrics that an epoch's line does not show


class EpochLines(L.Callback):
    """The first rank prints a line when the training starts, and one after each epoch."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # A training that resumes within an epoch has no on_train_epoch_start.
        self.began_s = time.monotonic()
        n_parameters = sum(parameter.numel() for parameter in pl_module.parameters())
        print_line(
            trainer,
            f"{type(pl_module).__name__}: {n_parameters:,} parameters, "
            f"{trainer.num_training_batches} batches an epoch",
        )

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.began_s = time.monotonic()

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        metrics = [
            f"{name} {float(value):.4f}"
            for name, value in sorted(trainer.callback_metrics.items())
            if not name.startswith(HIDDEN) and not name.endswith("_step")
        ]
        has_last_epoch = trainer.max_epochs is not None and trainer.max_epochs > 0
        last_epoch = trainer.max_epochs if has_last_epoch else "?"
        epoch = f"epoch {trainer.current_epoch + 1}/{last_epoch}"
        seconds = time.monotonic() - self.began_s
        print_line(trainer, "  ".join([epoch, *metrics, f"({seconds:.1f} s)"]))

    def on_train_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.should_stop:
            reason = "; ".join(stop_reasons(trainer)) or "a callback asked for it"
            print_line(trainer, f"stopped early after epoch {trainer.current_epoch}: {reason}")


def stop_reasons(trainer: L.Trainer) -> list[str]:
    """Why Lightning's callbacks ended a training before its last epoch."""
    reasons = []
    for callback in trainer.callbacks:
        if isinstance(callback, Timer) and (callback.time_remaining() or 1) <= 0:
            reasons.append("the time of the Timer is over")
        if isinstance(callback, EarlyStopping):
            message = getattr(callback, "stopping_reason_message", None) or ""
            reasons.append(message.removesuffix("Signaling Trainer to stop.").rstrip(". "))
    return [reason for reason in reasons if reason]


def print_line(trainer: L.Trainer, line: str) -> None:
    """Prints on the first rank, above the progress bar if there is one."""
    if not trainer.is_global_zero:
        return
    bar = trainer.progress_bar_callback
    if isinstance(bar, TQDMProgressBar) and bar.is_enabled:
        bar.train_progress_bar.write(line)
    else:
        print(line, flush=True)


class Bar(TQDMProgressBar):
    """Lightning's progress bar, drawn once a second at most, because drawing takes time."""

    drawn_s = 0.0

    def init_train_tqdm(self) -> Tqdm:
        bar = super().init_train_tqdm()
        bar.leave = False
        return bar

    def on_train_epoch_start(self, trainer: L.Trainer, *args: Any) -> None:
        super().on_train_epoch_start(trainer, *args)
        # Counted from 1, as in the lines.
        self.train_progress_bar.set_description(f"epoch {trainer.current_epoch + 1}")

    def get_metrics(self, *args: Any) -> dict[str, Any]:
        metrics = super().get_metrics(*args)
        # The id of the run, which was printed already.
        metrics.pop("v_num", None)
        return metrics

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


def build_progress(bar: bool | str, callbacks: list[L.Callback]) -> list[L.Callback]:
    """The callbacks that show progress.

    Args:
        bar: True or False; "auto": True on a terminal.
        callbacks: the user's; a progress bar among them takes the place of ours.
    """
    if bar == "auto":
        bar = sys.stdout.isatty()
    has_own_bar = any(isinstance(callback, L.callbacks.ProgressBar) for callback in callbacks)
    if bar and not has_own_bar:
        return [Bar(), EpochLines()]
    return [EpochLines()]
