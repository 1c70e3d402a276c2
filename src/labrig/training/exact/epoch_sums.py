"""The sums of an epoch, of `self.log(on_epoch=True)` and of torchmetrics, over a stop: each rank finds
its own in the checkpoint."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
import torch
from torchmetrics import Metric

from ..lightning_internals import is_tested
from ..lightning_internals_sums import (
    logged_metrics,
    metrics_of,
    on_cpu,
    read_logged,
    read_metric,
    set_logged,
    set_metric,
)
from .steps import is_within_epoch

SUMS = "sums"  # their name in a checkpoint


class EpochSums(L.Callback):
    """Saves the sums of each rank, and continues with them.

    They are set before the first batch, not when the training begins: a task may set its metrics to
    zero in `on_train_start`, which an uninterrupted run calls once.
    """

    def __init__(self) -> None:
        self.pending: dict[str, Any] | None = None  # of this rank, until they are set
        self.before_validation: dict[str, Any] = {}
        self.is_rewound = False
        self.saved: list[dict[str, Any]] | None = None  # of a checkpoint, one for each rank
        self.was_loaded = False

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        mine = self.before_validation if self.is_rewound else read_sums(trainer)
        of_ranks = [mine] * trainer.world_size
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(of_ranks, mine)
        checkpoint[SUMS] = of_ranks

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.was_loaded = True
        self.saved = checkpoint.get(SUMS)
        # With another number of ranks there are none for each.
        if self.saved and len(self.saved) == trainer.world_size:
            self.pending = self.saved[trainer.global_rank]

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.continue_sums(trainer)

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.continue_sums(trainer)

    def remember(self, trainer: L.Trainer) -> None:
        """Notes the sums before a validation, which begins again after a stop within it."""
        self.continue_sums(trainer)
        self.before_validation = read_sums(trainer)

    def rewind(self) -> None:
        """A checkpoint that is saved after this call has the sums of before the validation."""
        self.is_rewound = True

    def continue_sums(self, trainer: L.Trainer) -> None:
        """Sets the sums of the checkpoint, once."""
        if self.pending is None:
            return
        sums, self.pending = self.pending, None
        metrics = named_metrics(trainer)
        for name, state in sums["metrics"].items():
            if name in metrics:
                set_metric(metrics[name], state)
        if sums["logged"]:
            set_logged(trainer, sums["logged"])
        trainer.callback_metrics.update(sums["callback_metrics"])

    def reasons(self, trainer: L.Trainer) -> list[str]:
        """Why sums of this epoch may differ from those without the stop."""
        if not self.was_loaded:
            return []
        within_epoch = is_within_epoch(trainer)
        if self.saved is None:
            lacking = "the checkpoint has no sums of its epoch"
            return [lacking] if within_epoch else []
        if self.pending is None:
            return ["the sums of self.log and torchmetrics begin again"] if within_epoch else []
        reasons = []
        if within_epoch and not is_tested():
            reasons.append("the sums of self.log(on_epoch=True) begin again with this Lightning")
        missing = set(self.pending["metrics"]) - set(named_metrics(trainer))
        reasons += [f"the metric {name} is not there to be continued" for name in sorted(missing)]
        return reasons


def read_sums(trainer: L.Trainer) -> dict[str, Any]:
    """The sums of this rank."""
    metrics = named_metrics(trainer)
    is_over = epoch_is_over(trainer)
    # Lightning sets these to zero after the checkpoint of the end of an epoch.
    ending = logged_metrics(trainer) if is_over else set()
    return {
        "logged": {} if is_over else read_logged(trainer),
        "metrics": {
            name: read_metric(metric)
            for name, metric in metrics.items()
            if id(metric) not in ending
        },
        "callback_metrics": {
            name: on_cpu(value) for name, value in trainer.callback_metrics.items()
        },
    }


def named_metrics(trainer: L.Trainer) -> dict[str, Metric]:
    """The metrics of the task and of the callbacks."""
    owners: dict[str, Any] = {"task": trainer.lightning_module}
    for callback in trainer.callbacks:
        n_alike = sum(name.startswith(callback.state_key) for name in owners)
        owners[f"{callback.state_key}{n_alike or ''}"] = callback
    return metrics_of(owners)


def epoch_is_over(trainer: L.Trainer) -> bool:
    """Whether the hooks of the end of an epoch have begun."""
    progress = trainer.fit_loop.epoch_progress.current
    return progress.ready == progress.processed
