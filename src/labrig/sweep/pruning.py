"""Stops a point of a sweep that falls behind the others in its validation metric."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as L

from .. import env
from ..errors import LabError

CALLBACK = "sweep_pruning"  # the name in the section `callbacks` of a point's configuration


class Pruned(LabError):
    """Raised out of `trainer.fit` on every rank, between two batches after a checkpoint."""

    exit_code = 130  # recorded as interrupted: the run can be resumed

    def __init__(self, step: int) -> None:
        self.step = step
        super().__init__(f"pruned at step {step}: the others were better at this time")


class Pruning(L.Callback):
    """Reports a metric after each validation, and stops when the sweep's pruner says so.

    Outside of a sweep's worker it does nothing: a repeated or resumed run trains to its end.

    Args:
        metric: as logged, such as val/acc.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.trial: Any = None  # Optuna's; on the first rank
        self.should_stop = False

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero and env.SWEEP_POINT in os.environ:
            self.trial = open_trial(os.environ[env.SWEEP_POINT])

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        is_of_fit = trainer.state.fn == "fit" and not trainer.sanity_checking
        if env.SWEEP_POINT not in os.environ or not is_of_fit:
            return
        should_stop = False
        if self.trial is not None:
            require_metric(trainer, self.metric)
            # A resumed point validates an epoch a second time; the first report counts.
            self.trial.report(float(trainer.callback_metrics[self.metric]), trainer.current_epoch)
            should_stop = self.trial.should_prune()
        self.should_stop = trainer.strategy.broadcast(should_stop)

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        # Not earlier: the checkpoint of the validation is written after this callback's turn.
        if self.should_stop:
            raise Pruned(trainer.global_step)


def require_metric(trainer: L.Trainer, metric: str) -> None:
    """Makes sure that the validation has logged a metric."""
    names = sorted(trainer.callback_metrics)
    if metric not in names:
        raise LabError(
            f"sweep.metric={metric} is not logged in validation. Logged: {', '.join(names)}"
        )


def open_trial(place: str) -> Any:
    """Optuna's trial of a point, from DIRECTORY:NUMBER."""
    from .folder import Sweep
    from .points import Points

    directory, _, number = place.rpartition(":")
    return Points(Sweep.open(Path(directory))).trial(int(number))
