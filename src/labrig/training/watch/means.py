"""Means of what the steps return: summed on the device, read once per logging interval, equal on
any number of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities.data import extract_batch_size
from torch import Tensor

from ...errors import Failed
from ...record.files.metrics_file import refuse_row_keys
from ..exact.steps import is_logging_step, steps_done
from ..lightning_internals import names_of_own_rows
from .optimizer_watch import OptimizerWatch
from .print_line import print_line


class Means:
    """Sums of named values weighted by samples. `read` gives those of all ranks, and starts from
    zero."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.n_samples = 0

    def add(
        self, outputs: Tensor | Mapping[str, Any] | None, n_samples: int, loss_divisor: int = 1
    ) -> None:
        """Adds what a step returned for a batch of `n_samples`: a loss, or a dict, of which scalar
        tensors are taken.

        Args:
            loss_divisor: by which Lightning has divided the loss.
        """
        values = outputs if isinstance(outputs, Mapping) else {"loss": outputs}
        for name, value in values.items():
            if not isinstance(value, Tensor) or value.ndim:
                continue
            if name not in self.sums:
                dtype = summing_dtype(value.device)
                self.sums[name] = torch.zeros((), dtype=dtype, device=value.device)
            weight = n_samples * loss_divisor if name == "loss" else n_samples
            # `detach` costs more than the question whether it is needed.
            self.sums[name].add_(value.detach() if value.requires_grad else value, alpha=weight)
        self.n_samples += n_samples

    def totals(self, trainer: L.Trainer) -> tuple[list[str], Tensor]:
        """Names, and their sums over all ranks followed by the number of samples; all ranks
        together."""
        names = sorted(self.sums)
        device = trainer.strategy.root_device
        n_samples = torch.tensor(self.n_samples, dtype=summing_dtype(device), device=device)
        total = torch.stack([*[self.sums[name] for name in names], n_samples])
        if trainer.world_size > 1:
            torch.distributed.all_reduce(total)
        return names, total

    def mean_so_far(self, name: str) -> float | None:
        """The mean on this process; None when nothing was added. Waits for the device."""
        if name not in self.sums:
            return None
        return self.sums[name].item() / max(self.n_samples, 1)

    def read(self, trainer: L.Trainer) -> Totals:
        """The sums over all ranks; empty when nothing was added. All ranks together."""
        if not self.sums:
            return Totals()
        names, total = self.totals(trainer)
        *sums, n_samples = total.tolist()
        self.sums = {}
        self.n_samples = 0
        return Totals(dict(zip(names, sums, strict=True)), n_samples)


@dataclass
class Totals:
    """Sums of named values over `n_samples` samples of all ranks."""

    sums: dict[str, float] = field(default_factory=dict)
    n_samples: float = 0

    def add(self, other: Totals) -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.n_samples += other.n_samples

    def means(self, prefix: str) -> dict[str, float]:
        """The means as <prefix>/<name>."""
        return {
            f"{prefix}/{name}": value / max(self.n_samples, 1) for name, value in self.sums.items()
        }


class LogMeans(L.Callback):
    """Logs the means as train/<name>, val/<name> and test/<name>, to all loggers and to
    `trainer.callback_metrics`.

    A row of train/<name> is the mean over a logging interval, or over the rest of an epoch. At the
    end of an epoch `callback_metrics` has the mean over all of it: for the line of the epoch, for
    callbacks with a monitor, and for the record of a finished run.

    A name that the task logs itself, by `self.log`, is the task's: then no mean is logged under it.

    Args:
        watch: its values stand in the rows of the training; None: they have none.

    Raises:
        Failed: a mean of the training is not finite.
        LabError: the task logs a name that every row has, such as `epoch`.
    """

    def __init__(self, watch: OptimizerWatch | None = None) -> None:
        self.watch = watch
        self.train = Means()
        self.epoch = Totals()
        self.evaluation = Means()
        self.told: set[str] = set()  # names of which a line said that they are the task's

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        # Lightning gives the share of a batch in the gradient: its loss divided by their number.
        self.train.add(outputs, batch_size_of(batch), trainer.accumulate_grad_batches)
        if is_logging_step(trainer):
            self._publish_interval(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        # The epoch may have ended with a row.
        if self.train.sums:
            self._publish_interval(trainer)
        set_metrics(trainer, self._without_own(trainer, self.epoch.means("train")))
        self.epoch = Totals()

    def _publish_interval(self, trainer: L.Trainer) -> None:
        interval = self.train.read(trainer)
        self.epoch.add(interval)
        of_optimizers = self.watch.values() if self.watch else {}
        self._publish(trainer, interval.means("train"), of_optimizers)

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        *_: Any,
        **__: Any,
    ) -> None:
        self.evaluation.add(outputs, batch_size_of(batch))

    on_test_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.sanity_checking:
            self.evaluation = Means()  # of a few batches, before the training
            return
        self._publish(trainer, self.evaluation.read(trainer).means("val"))

    def on_test_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._publish(trainer, self.evaluation.read(trainer).means("test"))

    def _publish(
        self, trainer: L.Trainer, values: dict[str, float], further: dict[str, float] | None = None
    ) -> None:
        """Logs a row. `further` stands in it too, but is no metric."""
        own_means = self._without_own(trainer, values)
        set_metrics(trainer, own_means)
        row = own_means | (further or {})
        n_steps = steps_done(trainer)
        for logger in trainer.loggers if row else []:
            # Lightning's loggers count steps from 0.
            logger.log_metrics(row | {"epoch": trainer.current_epoch}, step=n_steps - 1)
        wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong and trainer.training:
            raise Failed(
                f"{' and '.join(wrong)} in the {trainer.log_every_n_steps} steps up to step {n_steps}. "
                "Lower optimizer.lr, set trainer.gradient_clip_val=1.0, or look at the data."
            )

    def _without_own(self, trainer: L.Trainer, values: dict[str, float]) -> dict[str, float]:
        """The values without those that the task logs under the same name; says so once.

        Raises:
            LabError: the task logs a name that every row has.
        """
        names_of_task = names_of_own_rows(trainer)
        # On all ranks, and before Lightning takes a logged `step` for the place of the row.
        refuse_row_keys(names_of_task)
        own = values.keys() & names_of_task
        if own - self.told:
            self.told |= own
            names = ", ".join(sorted(own))
            print_line(
                trainer, f"{names}: logged by self.log, so the mean of what the step returns is not"
            )
        return {name: value for name, value in values.items() if name not in own}

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.train.sums:
            checkpoint["means"] = self.train.totals(trainer)
        checkpoint["means_of_epoch"] = asdict(self.epoch)

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.state.fn != "fit":
            return
        self.epoch = Totals(**checkpoint.get("means_of_epoch", {}))
        if "means" not in checkpoint:
            return
        # Sums of all ranks: the first continues with them, the others start from zero.
        names, totals = checkpoint["means"]
        totals = totals.to(trainer.strategy.root_device) * float(trainer.is_global_zero)
        *sums, n_samples = totals.unbind()
        self.train.sums = dict(zip(names, sums, strict=True))
        self.train.n_samples = int(n_samples)


def set_metrics(trainer: L.Trainer, values: dict[str, float]) -> None:
    """For callbacks with a monitor."""
    trainer.callback_metrics.update({name: torch.tensor(value) for name, value in values.items()})


def batch_size_of(batch: Any) -> int:
    """Samples in a batch, from its first tensor."""
    first = batch[0] if isinstance(batch, list | tuple) and batch else batch
    if isinstance(first, Tensor) and first.ndim:
        return first.shape[0]
    return extract_batch_size(batch)


def summing_dtype(device: torch.device) -> torch.dtype:
    """Double precision, which Apple's GPUs do not have."""
    return torch.float32 if device.type == "mps" else torch.float64
