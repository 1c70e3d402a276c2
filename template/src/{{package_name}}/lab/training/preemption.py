# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Stops a training at a batch boundary when a signal asks for it, with a checkpoint."""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

import lightning.pytorch as L
import torch
from lightning.fabric.utilities.seed import _collect_rng_states, _set_rng_states
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from torch.utils.data.dataloader import DataLoader, _MultiProcessingDataLoaderIter

from ..errors import LabError
from ..machine.stop import PREEMPTION_SIGNALS, STOP

INTERRUPT, REQUEUE = 1, 2  # what was asked for; ranks agree on the largest
start_workers = _MultiProcessingDataLoaderIter.__init__


class Stopped(LabError):
    """Raised out of `trainer.fit` on every rank, at the same step, once the checkpoint is on disk.

    `requeue` is True when a scheduler asked (then `<run_dir>/requeue` exists and the exit code is 0, so that
    no rank looks like a failure to the launcher), False for Ctrl-C (130).
    """

    def __init__(self, *, step: int, requeue: bool) -> None:
        self.step, self.requeue = step, requeue
        self.exit_code = 0 if requeue else 130
        asked = "the scheduler" if requeue else "Ctrl-C"
        super().__init__(f"stopped at step {step} with a checkpoint, as {asked} asked")


class PreemptionCallback(L.Callback):
    """Stops `fit` at a batch where nothing is lost, when any rank was asked to. The last of the callbacks.

    Between training batches the checkpoint holds the position in the epoch. During validation it holds the state before
    it, and validation begins anew when the run goes on: what was seen of it is lost, no training is. Only while gradients
    of several batches accumulate there (`val_check_interval`) the stop waits for the next optimizer step, since
    checkpoints hold no gradients. And once `max_steps` is reached the last validation goes on after the checkpoint, since
    Lightning would not begin it again.

    The Trainer's checkpoint callback has `save_now(trainer)`, and saves at the end of each epoch by itself.

    Args:
        run_dir: where the marker `requeue` is written for the job script.
        interval_s: how often the ranks agree, in seconds (> 0); a signal is answered within this plus a batch.
    """

    def __init__(self, run_dir: Path | str, *, interval_s: float = 5.0) -> None:
        self.marker = Path(run_dir) / "requeue"
        self.interval_s = interval_s
        self.agreed, self.n_common = 0, 0.0
        self.taken: list[int] = []

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        loop = trainer.fit_loop.epoch_loop
        trainer._signal_connector.register_signal_handlers = lambda: None
        loop._broadcast_sigterm_tensor = lambda: None
        loop.val_loop.reset = partial(self._before_validation, trainer, loop.val_loop.reset)
        _MultiProcessingDataLoaderIter.__init__ = start_deaf_workers
        self.taken = STOP.listen(*PREEMPTION_SIGNALS)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.taken += STOP.listen(
            signal.SIGINT
        )  # only now: before the first step Ctrl-C may end the program at once
        self.agreed = 0
        self._count_anew()

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        self.n_batches += 1
        if self.n_batches == self.next_agreement:
            self._agree(trainer)
        if self.agreed and nothing_pending(
            trainer.fit_loop.epoch_loop, trainer.fit_loop._data_fetcher
        ):
            trainer.checkpoint_callback.save_now(trainer)
            self._stop(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Ranks may validate different numbers of batches; they agree at those that all of them have."""
        self._count_anew()
        self.n_common = sum(trainer.num_val_batches)
        if trainer.world_size > 1:
            known = float(self.n_common if math.isfinite(self.n_common) else 0)
            fewest = torch.tensor(known, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(fewest, op=torch.distributed.ReduceOp.MIN)
            self.n_common = fewest.item()

    def on_validation_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        self.n_batches += 1
        loop = trainer.fit_loop.epoch_loop
        if self.n_batches > self.n_common or trainer.state.fn != "fit":
            return
        if self.n_batches == self.next_agreement:
            self._agree(trainer)
        if self.agreed and trainer.global_step == trainer.max_steps:
            self.n_common = 0
            trainer.checkpoint_callback.save_now(trainer)
        elif self.agreed and not loop._should_accumulate():
            _set_rng_states(self.random_states)
            # as if its first batch had begun: Lightning then validates from the start
            loop.val_loop.batch_progress.current.reset()
            loop.val_loop.batch_progress.total.processed -= 1
            trainer.checkpoint_callback.save_now(trainer)
            self._stop(trainer)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if (
            self.agreed
        ):  # during the last batch of an epoch; the checkpoint of the epoch's end is there already
            self._stop(trainer)

    def teardown(self, *_: object, stage: str = "fit") -> None:
        STOP.ignore(
            *self.taken
        )  # what a job listens to from its first line stays so until its last
        self.taken = []

    on_exception = teardown

    def _before_validation(self, trainer: L.Trainer, reset: Callable[[], None]) -> None:
        """Remembers the random generators before `reset` makes the loaders' iterators, which draw from them."""
        self.random_states = _collect_rng_states(
            include_cuda=trainer.strategy.root_device.type == "cuda"
        )
        reset()

    def _count_anew(self, *_: object) -> None:
        self.n_batches, self.next_agreement, self.since_s = 0, 1, time.monotonic()

    on_validation_end = _count_anew

    def _agree(self, trainer: L.Trainer) -> None:
        """Every rank learns the strongest request of all, and how long the slowest takes for a batch.

        The next agreement is counted in batches, from that shared time, so all ranks come to it together.
        """
        asked = 0 if not STOP.signum else INTERRUPT if STOP.signum == signal.SIGINT else REQUEUE
        batch_s = (time.monotonic() - self.since_s) / self.n_batches
        if trainer.world_size > 1:
            shared = torch.tensor([float(asked), batch_s], device=trainer.strategy.root_device)
            torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
            asked, batch_s = int(shared[0].item()), shared[1].item()
        self.agreed = asked
        self.n_common -= self.n_batches
        self._count_anew()
        self.next_agreement = max(1, int(self.interval_s / batch_s))

    def _stop(self, trainer: L.Trainer) -> None:
        requeue = self.agreed == REQUEUE
        if requeue and trainer.is_global_zero:
            self.marker.write_text(f"step {trainer.global_step}\n", encoding="utf-8")
        trainer.strategy.barrier("stopped")  # no rank leaves before the marker is there
        STOP.signum = 0
        raise Stopped(step=trainer.global_step, requeue=requeue)


def nothing_pending(loop: _TrainingEpochLoop, data_fetcher: object) -> bool:
    """False after a batch that leaves gradients to accumulate, or before validation or the end of the epoch."""
    before_the_end = not loop._should_accumulate() and not loop._num_ready_batches_reached()
    return before_the_end and not loop._should_check_val_fx(data_fetcher)


def start_deaf_workers(workers: _MultiProcessingDataLoaderIter, loader: DataLoader) -> None:
    """Starts DataLoader workers that no signal to the whole job or terminal ends: their parent decides.

    torch gives workers a handler of its own for TERM; but a signal that is blocked when a process starts stays blocked
    in it, over fork and exec alike. So this holds for fork, spawn and forkserver.
    """
    if (loader.multiprocessing_context or multiprocessing).get_start_method() != "fork":
        resource_tracker.ensure_running()  # it would unblock TERM if it started later
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*PREEMPTION_SIGNALS, signal.SIGINT))
    try:
        start_workers(workers, loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for worker in workers._workers:
        worker._popen.terminate = (
            worker._popen.kill
        )  # how torch and multiprocessing end one that hangs
