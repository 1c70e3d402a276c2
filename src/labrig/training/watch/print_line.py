"""Prints a line of a training."""

from __future__ import annotations

import lightning.pytorch as L
from lightning.pytorch.callbacks import TQDMProgressBar


def print_line(trainer: L.Trainer, line: str) -> None:
    """Prints on the first rank, above the progress bar if there is one."""
    if not trainer.is_global_zero:
        return
    bar = trainer.progress_bar_callback
    if isinstance(bar, TQDMProgressBar) and bar.is_enabled:
        bar.train_progress_bar.write(line)
    else:
        print(line, flush=True)
