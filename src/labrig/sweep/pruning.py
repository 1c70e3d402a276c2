"""Looks at a point of a sweep after each validation: it stops where others are ahead, and where the
metric of the sweep is not there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning.pytorch as L

from .. import env
from ..errors import Failed, LabError, nearest
from ..record.read.ranking import split_of
from ..record.read.rows import read_rows

if TYPE_CHECKING:
    from .folder import Sweep
    from .points import Points

CALLBACK = "sweep_pruning"  # the name in the section `callbacks` of a point's configuration


class Pruned(LabError):
    """Raised out of `trainer.fit` on every rank, between two batches after a checkpoint."""

    exit_code = 130  # recorded as interrupted: the run can be resumed

    def __init__(self, step: int) -> None:
        self.step = step
        super().__init__(f"pruned at step {step}: the others were better at this time")


class NotLogged(Failed):
    """The training does not log what the sweep searches by."""


class Pruning(L.Callback):
    """Makes sure after each validation that the metrics of the sweep are logged; with a pruner it
    reports the metric, and stops when the pruner says so.

    Outside of a sweep's worker it does nothing: a repeated or resumed run trains to its end.
    """

    def __init__(self) -> None:
        self.points: Points | None = None  # on the first rank
        self.number = 0
        self.should_stop = False

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero and env.SWEEP_POINT in os.environ:
            directory, _, number = os.environ[env.SWEEP_POINT].rpartition(":")
            from .folder import Sweep
            from .points import Points

            self.points = Points(Sweep.open(Path(directory)))
            self.number = int(number)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        is_of_fit = trainer.state.fn == "fit" and not trainer.sanity_checking
        if env.SWEEP_POINT not in os.environ or not is_of_fit:
            return
        should_stop = False
        if self.points is not None:
            sweep = self.points.sweep
            metric = sweep.definition.metrics[0]
            require_metrics(trainer, sweep)
            if sweep.definition.pruner and metric in trainer.callback_metrics:
                trial = self.points.trial(self.number)
                # A resumed point validates an epoch a second time; the first report counts.
                trial.report(float(trainer.callback_metrics[metric]), trainer.current_epoch)
                should_stop = trial.should_prune()
        self.should_stop = trainer.strategy.broadcast(should_stop)

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        # Not earlier: the checkpoint of the validation is written after this callback's turn.
        if self.should_stop:
            raise Pruned(trainer.global_step)


def require_metrics(trainer: L.Trainer, sweep: Sweep) -> None:
    """Makes sure that the validation has logged what the sweep searches by, or that a run of the trial
    has: some log a metric in a few validations only.

    Without a pruner a metric of the training or the test may come later.

    Raises:
        NotLogged: it has not.
    """
    definition = sweep.definition
    names = sorted(trainer.callback_metrics)
    for metric in definition.metrics:
        is_due = split_of(metric) == "val" or definition.pruner
        if is_due and metric.removesuffix("_best") not in names and not is_recorded(sweep, metric):
            raise NotLogged(
                f"sweep.metric={metric} is not logged in validation{nearest(metric, names)}. "
                f"Logged: {', '.join(names)}. If it comes in a later one, train a run first: lab train"
            )


def is_recorded(sweep: Sweep, metric: str) -> bool:
    """Whether a run of the trial has a metric."""
    rows = read_rows([sweep.runs])
    return any(metric in row["metrics"] for row in rows if row["trial"] == sweep.definition.trial)
