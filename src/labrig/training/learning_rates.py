"""The callback behind `callbacks=lr_monitor`."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import LearningRateMonitor


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
