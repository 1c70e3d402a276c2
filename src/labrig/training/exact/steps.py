"""Where a training stands: optimizer steps done, gradients that wait, what comes before the next
batch."""

from __future__ import annotations

import lightning.pytorch as L

from ..lightning_internals import optimizer_steps, validation_follows


def steps_done(trainer: L.Trainer) -> int:
    """Optimizer steps done. A task with manual optimization counts a batch as one step, whatever it
    does with it."""
    if trainer.lightning_module.automatic_optimization:
        return optimizer_steps(trainer)
    return trainer.fit_loop.epoch_loop.total_batch_idx + 1


def is_last_batch(trainer: L.Trainer) -> bool:
    """Whether the batch at hand is the last of its epoch."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    return progress.is_last_batch or progress.current.ready >= trainer.num_training_batches


def is_within_epoch(trainer: L.Trainer) -> bool:
    """Whether some batches of an epoch are done, and others follow."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    return progress.current.ready > 0 and not progress.is_last_batch


def is_last_step(trainer: L.Trainer) -> bool:
    """After a batch: whether `max_steps` are done, and the end of the epoch follows."""
    return trainer.max_steps != -1 and trainer.global_step >= trainer.max_steps


def ends_epoch(trainer: L.Trainer) -> bool:
    """In a validation of a fit: whether the end of the epoch follows it."""
    return is_last_batch(trainer) or is_last_step(trainer) or trainer.should_stop


def accumulates(trainer: L.Trainer) -> bool:
    """Whether gradients of the batch at hand wait for further batches before the optimizer's
    step."""
    n_batches = trainer.fit_loop.epoch_loop.batch_progress.current.ready
    return n_batches % trainer.accumulate_grad_batches != 0 and not is_last_batch(trainer)


def is_logging_step(trainer: L.Trainer) -> bool:
    """After a batch: whether it ended an interval of `log_every_n_steps` steps."""
    return steps_done(trainer) % trainer.log_every_n_steps == 0 and not accumulates(trainer)


def nothing_pending(trainer: L.Trainer) -> bool:
    """After a batch: whether the next batch follows, with no gradients that wait, validation or end
    of the epoch before."""
    if accumulates(trainer) or is_last_batch(trainer) or is_last_step(trainer):
        return False
    return not validation_follows(trainer)
