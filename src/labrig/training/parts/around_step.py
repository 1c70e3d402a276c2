"""What callbacks share that see what goes into `training_step`, or what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch as L

Step = Callable[..., Any]


class AroundStep(L.Callback):
    """Puts a function around `training_step` as long as the training goes."""

    def around(self, step: Step) -> Step:
        """What is called in place of `training_step`."""
        raise NotImplementedError

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # An attribute of this one object, in front of the method of its class
        pl_module.training_step = self.around(pl_module.training_step)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        vars(pl_module).pop("training_step", None)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        self.on_train_end(trainer, pl_module)


class Overfit(AroundStep):
    """Gives `training_step` the first batch of the training in place of each batch."""

    def around(self, step: Step) -> Step:
        first: list[Any] = []

        def step_on_first(batch: Any, *arguments: Any) -> Any:
            first[:] = first or [batch]
            return step(first[0], *arguments)

        return step_on_first
