"""Lightning's finders of learning rate and batch size: what they found holds for the whole run."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import BatchSizeFinder, LearningRateFinder
from lightning.pytorch.utilities.parsing import lightning_getattr, lightning_setattr

FINDERS = (BatchSizeFinder, LearningRateFinder)


def without_finders(callbacks: list[L.Callback]) -> list[L.Callback]:
    """The callbacks after the first search: a second one would find something else, and Lightning
    would forget the checkpoint over it."""
    return [callback for callback in callbacks if not isinstance(callback, FINDERS)]


class FoundBatchSize(L.Callback):
    """Keeps the batch size of a BatchSizeFinder in the checkpoints. (A learning rate is in the state
    of its optimizer.)

    Args:
        callbacks: the user's, all of them.
    """

    def __init__(self, callbacks: list[L.Callback]) -> None:
        finders = [callback for callback in callbacks if isinstance(callback, BatchSizeFinder)]
        self.name = finders[0]._batch_arg_name if finders else None
        self.has_searched = False

    def on_train_start(self, *_: Any) -> None:
        self.has_searched = True

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        # The finder would search again before the test, and set the step to 0 on the way.
        if stage == "fit":
            trainer.callbacks = without_finders(trainer.callbacks)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # Not in the checkpoint that the finder saves before its search, and loads after it.
        if self.name and self.has_searched:
            checkpoint["batch_size"] = lightning_getattr(pl_module, self.name)

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.name and "batch_size" in checkpoint:
            lightning_setattr(pl_module, self.name, checkpoint["batch_size"])
