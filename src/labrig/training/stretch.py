"""Notes at which step an attempt begins, and ends it where `lab runs reproduce` says."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import lightning.pytorch as L

from .. import env
from ..machine.stop import STOP
from ..record.stretches import note_beginning
from .preemption import PreemptionCallback, Request


class StretchCallback(L.Callback):
    """Comes just before the PreemptionCallback, through which it stops.

    Args:
        run_dir: of the run.
        attempt: number of the attempt.
        preemption: is asked to stop after the batch that makes step LAB_STOP_STEP.
    """

    def __init__(self, run_dir: Path, attempt: int, preemption: PreemptionCallback) -> None:
        self.run_dir = run_dir
        self.attempt = attempt
        self.preemption = preemption
        self.stop_step = int(os.environ.get(env.STOP_STEP, 0))

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            note_beginning(self.run_dir, self.attempt, trainer.global_step)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self.stop_step and trainer.global_step >= self.stop_step and not self.preemption.agreed:
            # All ranks are at this step, so they need not agree.
            self.preemption.agreed = Request.INTERRUPT
            STOP.signum = STOP.signum or signal.SIGINT
