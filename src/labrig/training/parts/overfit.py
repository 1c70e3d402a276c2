"""The callback of +debug=overfit: every step sees the first batch."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L


class Overfit(L.Callback):
    """Gives `training_step` the first batch of the training in place of each batch."""

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        step = pl_module.training_step
        first: list[Any] = []

        def step_on_first(batch: Any, *arguments: Any) -> Any:
            first[:] = first or [batch]
            return step(first[0], *arguments)

        # An attribute of this one object, in front of the method of its class
        pl_module.training_step = step_on_first

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        vars(pl_module).pop("training_step", None)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.on_train_end(trainer, pl_module)
