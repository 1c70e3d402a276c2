"""Stops a training at a batch boundary when a signal asks for it, with a checkpoint."""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import ExitStack
from enum import IntEnum
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch

from ... import env
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...record.read.run import note_beginning
from ..lightning_internals import (
    called_before_validation,
    can_restart_validation,
    finish_batch,
    restart_validation,
    signals_ignored,
)
from ..lightning_internals_torch import workers_in_hand
from .epoch_sums import EpochSums
from .random_state import RandomState, read_random_state, set_random_state
from .steps import accumulates, nothing_pending
from .stopped import Stopped
from .unsaved import gradients_wait

BATCH_IS_FINISHED = "batch_is_finished"  # its name in a checkpoint


class StopKind(IntEnum):
    """What a rank was asked for. The ranks agree on the largest."""

    NOTHING = 0
    INTERRUPT = 1  # Ctrl-C
    REQUEUE = 2  # by the scheduler


class PreemptionCallback(L.Callback):
    """Stops `fit` at a batch where nothing is lost, when any rank was asked to. The last of the
    callbacks.

    - Between training batches: saves the position in the epoch, then stops.
    - During validation: saves the state before the validation, then stops. The resumed run
      validates again from the first batch. While gradients of several batches accumulate
      (`val_check_interval`), it waits for the next optimizer step, because checkpoints hold no
      gradients.
    - During the last validation, after `max_steps`: saves, then finishes the validation, because
      Lightning would not begin it again.

    One of the Trainer's checkpoint callbacks has `save_now(trainer)`, and saves at the end of each
    epoch by itself. It may have `finish(trainer)`, until which a checkpoint need not be whole.

    Args:
        run_dir: where the marker `requeue` is written for the job script.
        sums: of the epoch, which a checkpoint of before a validation needs; None: there are none.
        interval_s: how often the ranks agree, in seconds (> 0). A signal is answered within this
            plus a batch.
    """

    def __init__(
        self, run_dir: Path | str, sums: EpochSums | None = None, *, interval_s: float = 5.0
    ) -> None:
        self.marker = Path(run_dir) / "requeue"
        self.sums = sums
        self.interval_s = interval_s
        self.agreed = StopKind.NOTHING
        self.agreed_signum = 0
        # Validation batches that every rank still has; infinite for a stream.
        self.n_common_batches = 0.0
        self.signals: list[int] = []
        self.replacements = ExitStack()
        self.random_state: RandomState = {}
        self.batch_is_finished = False

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        self.replacements.enter_context(workers_in_hand())
        self.replacements.enter_context(
            called_before_validation(trainer, lambda: self._remember_state(trainer))
        )
        if self.replacements.enter_context(signals_ignored(trainer)):
            self.signals += STOP.listen(*PREEMPTION_SIGNALS)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Ctrl-C only now: before the first step it may end the program at once.
        self.signals += STOP.listen(*PREEMPTION_SIGNALS, signal.SIGINT)
        self.agreed = StopKind.NOTHING
        self._agree_after_next_batch()

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.n_batches += 1
        if self.n_batches == self.next_agreement:
            self._agree(trainer)
        if self.agreed and nothing_pending(trainer) and not gradients_wait(trainer):
            self.batch_is_finished = finish_batch(trainer, outputs, batch, batch_idx)
            save_now(trainer)
            self._stop(trainer)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Agreed during the last batch of an epoch; the checkpoint of its end is there already.
        if self.agreed:
            self._stop(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Ranks may validate different numbers of batches. They agree at those that all of them
        have."""
        self._agree_after_next_batch()
        self.n_common_batches = sum(trainer.num_val_batches)
        if trainer.world_size > 1:
            # Other ranks may have a stream, whose length is not known; then there is no common batch.
            n_batches = self.n_common_batches if math.isfinite(self.n_common_batches) else 0
            fewest = torch.tensor(float(n_batches), device=trainer.strategy.root_device)
            torch.distributed.all_reduce(fewest, op=torch.distributed.ReduceOp.MIN)
            self.n_common_batches = fewest.item()

    def on_validation_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        self.n_batches += 1
        if trainer.sanity_checking:
            return  # the first batch of the training comes soon
        if trainer.state.fn != "fit" or self.n_batches > self.n_common_batches:
            return
        if self.n_batches == self.next_agreement:
            self._agree(trainer)
        if not self.agreed:
            return
        if trainer.global_step == trainer.max_steps:
            # No further agreement: this validation is finished.
            self.n_common_batches = 0
            save_now(trainer)
        elif can_restart_validation() and not accumulates(trainer) and not gradients_wait(trainer):
            set_random_state(self.random_state)
            if self.sums:
                self.sums.rewind()
            restart_validation(trainer)
            self.batch_is_finished = True
            save_now(trainer)
            self._stop(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._agree_after_next_batch()

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # Otherwise it is saved before the module's `on_train_batch_end`, as Lightning's own is.
        checkpoint[BATCH_IS_FINISHED] = self.batch_is_finished

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Not later: where Lightning had taken signals, it gives them back between this hook and `teardown`.
        self._give_signals_back()

    def teardown(self, *_: Any, **__: Any) -> None:
        self._give_signals_back()
        self.replacements.close()

    on_exception = teardown

    def _give_signals_back(self) -> None:
        # What a job listens to from its first line stays so until its last: `signals` are those taken here.
        STOP.ignore(*self.signals)
        self.signals = []

    def _remember_state(self, trainer: L.Trainer) -> None:
        if self.sums:
            self.sums.remember(trainer)
        self.random_state = read_random_state(cuda=trainer.strategy.root_device.type == "cuda")

    def _agree_after_next_batch(self) -> None:
        self.n_batches = 0
        self.next_agreement = 1
        self.counted_since_s = time.monotonic()

    def _agree(self, trainer: L.Trainer) -> None:
        """Every rank learns the strongest request of all, and how long the slowest takes for a
        batch.

        The next agreement is counted in batches, from that shared time, so all ranks come to it
        together.
        """
        request = requested()
        signum = STOP.signum
        batch_s = (time.monotonic() - self.counted_since_s) / self.n_batches
        if trainer.world_size > 1:
            values = [float(request), batch_s, float(signum)]
            shared = torch.tensor(values, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
            request = StopKind(int(shared[0].item()))
            batch_s = shared[1].item()
            signum = int(shared[2].item())
        self.agreed = request
        self.agreed_signum = signum
        self.n_common_batches -= self.n_batches
        self._agree_after_next_batch()
        self.next_agreement = max(1, int(self.interval_s / batch_s))

    def _stop(self, trainer: L.Trainer) -> None:
        requeue = self.agreed == StopKind.REQUEUE
        for callback in trainer.checkpoint_callbacks:
            if hasattr(callback, "finish"):
                callback.finish(trainer)  # a checkpoint that is written in the background
        if requeue and trainer.is_global_zero:
            self.marker.write_text(f"step {trainer.global_step}\n", encoding="utf-8")
        # No rank leaves before the marker is there.
        trainer.strategy.barrier("stopped")
        STOP.signum = 0
        raise Stopped(step=trainer.global_step, requeue=requeue, signum=self.agreed_signum)


def save_now(trainer: L.Trainer) -> None:
    """Saves by the checkpoint callback that can. There may be others, such as a ModelCheckpoint."""
    for callback in trainer.checkpoint_callbacks:
        if hasattr(callback, "save_now"):
            callback.save_now(trainer)


def requested() -> StopKind:
    """What the signal that this process received asks for."""
    if not STOP.signum:
        return StopKind.NOTHING
    return StopKind.INTERRUPT if STOP.signum == signal.SIGINT else StopKind.REQUEUE


# Notes at which step an attempt begins, and ends it where `lab runs reproduce` says.


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
            self.preemption.agreed = StopKind.INTERRUPT
            STOP.signum = STOP.signum or signal.SIGINT
