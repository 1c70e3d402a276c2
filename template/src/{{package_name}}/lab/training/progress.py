# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Progress of a training: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as L
from tqdm import tqdm


class Progress(L.Callback):
    """Rank 0 tells of each epoch; the bar is drawn once a second at most.

    Args:
        bar: True or False; "auto" means a bar when standard error is a terminal.
    """

    def __init__(self, bar: bool | str = "auto") -> None:
        self.wanted = sys.stderr.isatty() if bar == "auto" else bar
        self.bar: tqdm | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        n_parameters = sum(p.numel() for p in pl_module.parameters())
        batches = f"{trainer.num_training_batches} batches an epoch"
        self.say(trainer, f"{type(pl_module).__name__}: {n_parameters:,} parameters, {batches}")
        self.started_s = time.monotonic()

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.started_s = time.monotonic()
        if self.wanted and trainer.is_global_zero:
            name, total = f"epoch {trainer.current_epoch + 1}", trainer.num_training_batches
            self.bar = tqdm(
                total=total,
                desc=name,
                unit=" batches",
                mininterval=1.0,
                leave=False,
                dynamic_ncols=True,
            )

    def on_train_batch_end(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.update()

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.close()
        names = sorted(
            name for name in trainer.callback_metrics if name.startswith(("train/", "val/"))
        )
        shown = "  ".join(f"{name} {float(trainer.callback_metrics[name]):.4f}" for name in names)
        last = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else "?"
        seconds = time.monotonic() - self.started_s
        self.say(trainer, f"epoch {trainer.current_epoch + 1}/{last}  {shown}  ({seconds:.1f} s)")

    def close(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    on_exception = close

    def say(self, trainer: L.Trainer, line: str) -> None:
        if trainer.is_global_zero:
            print(line, flush=True)
