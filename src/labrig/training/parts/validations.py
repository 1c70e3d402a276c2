"""When a training validates: every N optimizer steps, and at its end."""

from __future__ import annotations

import sys
from typing import Any

import lightning.pytorch as L

from ..exact.steps import accumulates, is_last_batch, is_last_step, steps_done
from ..watch.print_line import print_line

NEVER = sys.maxsize  # batches
# Arguments of the Trainer with which Lightning validates when `Validations` says so, and callbacks
# that choose their own moment (EarlyStopping) look after each validation.
BY_STEPS = {"check_val_every_n_epoch": None, "val_check_interval": NEVER}


class Validations(L.Callback):
    """Validates every N optimizer steps and at the end. A line says when the training ended with other
    weights than those of the last validation.

    After each batch Lightning asks `trainer.val_check_batch`, a number of batches, whether it
    validates: here it is 1 or NEVER. To stand before all callbacks that ask the same.

    Args:
        every_steps: `trainer.val_every_steps`; None: Lightning's own settings decide.
    """

    def __init__(self, every_steps: int | None) -> None:
        self.every_steps = every_steps
        self.validated: int | None = None  # optimizer steps before the last validation

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self.every_steps:
            trainer.val_check_batch = 1 if self._is_due(trainer, self.every_steps) else NEVER

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        # A run that resumes may have been stopped within a validation.
        self.on_train_batch_end(trainer)

    def _is_due(self, trainer: L.Trainer, every_steps: int) -> bool:
        if accumulates(trainer):
            return False
        is_last_epoch = trainer.current_epoch + 1 == trainer.max_epochs
        is_end = is_last_step(trainer) or (is_last_epoch and is_last_batch(trainer))
        return is_end or steps_done(trainer) % every_steps == 0

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.validated = steps_done(trainer)

    def on_train_end(self, trainer: L.Trainer, *_: Any) -> None:
        n_steps = steps_done(trainer)
        if self.validated is not None and self.validated < n_steps:
            print_line(
                trainer,
                f"val/… is of step {self.validated}, the weights are of step {n_steps}: "
                "trainer.val_every_steps=N validates at the last step too",
            )

    def state_dict(self) -> dict[str, Any]:
        return {"validated": self.validated}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.validated = state["validated"]
