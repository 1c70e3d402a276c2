# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Preemption, time limits, Ctrl-C: a flag, an agreement of all ranks at an interval, one checkpoint, the end.

Lightning 2.6 broadcasts inside its SIGTERM handler, which hangs when one rank alone is signalled, and it
broadcasts and reads a flag on every step, which costs a device synchronisation each. Both are replaced here.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import lightning.pytorch as L
import torch
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

from ..errors import LabError
from ..machine.stop import PREEMPTION, STOP

INTERRUPT, REQUEUE = 1, 2  # what was asked for; ranks agree on the largest


class Stopped(LabError):
    """Raised out of `trainer.fit` on every rank, at the same step, once the checkpoint is on disk.

    `requeue` is True when a scheduler asked (then `<run_dir>/requeue` exists and the exit code is 0, so that
    no rank looks like a failure to the launcher), False for Ctrl-C (130).
    """

    def __init__(self, *, step: int, requeue: bool) -> None:
        self.step = step
        self.requeue = requeue
        self.exit_code = 0 if requeue else 130
        super().__init__(
            f"stopped at step {step} with a checkpoint, as {'the scheduler' if requeue else 'Ctrl-C'} asked"
        )


class PreemptionCallback(L.Callback):
    """Stops `fit` at a step where nothing is lost, when any rank was asked to. The last of the callbacks.

    The Trainer's checkpoint callback has `save_now(trainer)`, and saves at the end of each epoch by itself.

    Args:
        run_dir: where the marker `requeue` is written for the job script.
        interval_s: how often the ranks agree, in seconds (> 0); a signal is answered within this plus a step.
    """

    def __init__(self, run_dir: Path | str, *, interval_s: float = 5.0) -> None:
        self.marker = Path(run_dir) / "requeue"
        self.interval_s = interval_s
        self.agreed = 0
        self.taken: list[int] = []

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        trainer._signal_connector.register_signal_handlers = lambda: None
        trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None
        self.taken = STOP.listen(*PREEMPTION)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.taken += STOP.listen(signal.SIGINT)  # only now: before the first step Ctrl-C may end the program at once
        self.agreed = 0
        self.n_batches = 0
        self.next_agreement = 1
        self.last_agreement = (0, time.monotonic())

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        self.n_batches += 1
        if self.n_batches == self.next_agreement:
            self._agree(trainer)
        if self.agreed and nothing_pending(trainer.fit_loop.epoch_loop, trainer.fit_loop._data_fetcher):
            trainer.checkpoint_callback.save_now(trainer)
            self._stop(trainer)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.agreed:  # during the last batch of an epoch; the checkpoint of the epoch's end is there already
            self._stop(trainer)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self._give_back()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._give_back()

    def _give_back(self) -> None:
        STOP.ignore(*self.taken)  # what a job listens to from its first line stays so until its last
        self.taken = []

    def _agree(self, trainer: L.Trainer) -> None:
        """Every rank learns the strongest request of all, and how long the slowest takes for a batch.

        The next agreement is counted in batches, from that shared time, so all ranks come to it together.
        """
        asked = 0 if not STOP.signum else INTERRUPT if STOP.signum == signal.SIGINT else REQUEUE
        n_before, time_before_s = self.last_agreement
        batch_s = (time.monotonic() - time_before_s) / (self.n_batches - n_before)
        if trainer.world_size > 1:
            shared = torch.tensor([float(asked), batch_s], device=trainer.strategy.root_device)
            torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
            asked, batch_s = int(shared[0].item()), shared[1].item()
        self.agreed = asked
        self.last_agreement = (self.n_batches, time.monotonic())
        self.next_agreement = self.n_batches + max(1, int(self.interval_s / batch_s))

    def _stop(self, trainer: L.Trainer) -> None:
        requeue = self.agreed == REQUEUE
        if requeue and trainer.is_global_zero:
            self.marker.write_text(f"step {trainer.global_step}\n", encoding="utf-8")
        trainer.strategy.barrier("stopped")  # no rank leaves before the marker is there
        STOP.signum = 0
        raise Stopped(step=trainer.global_step, requeue=requeue)


def nothing_pending(loop: _TrainingEpochLoop, data_fetcher: object) -> bool:
    """False after a batch that leaves gradients to accumulate, or before validation or the end of the epoch."""
    return not (
        loop._should_accumulate() or loop._num_ready_batches_reached() or loop._should_check_val_fx(data_fetcher)
    )
