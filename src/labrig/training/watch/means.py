"""Means of what the steps return: summed on the device, read once per logging interval, equal on
any number of ranks. Each name has its own sum and its own count of samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from numbers import Real
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor

from ...errors import Failed
from ...record.files.metrics_file import refuse_row_keys
from ..exact.steps import is_logging_step, steps_done
from ..lightning_internals import names_of_own_rows
from .batch_size import describe_lengths, loaders_of_stage, n_samples_of
from .derived import Derived
from .optimizer_watch import OptimizerWatch
from .print_line import print_line

BATCH_SIZE = "batch_size"  # what a step returns under it is no metric, but the weight of the others
# What is often returned as if it were a mean over samples.
NO_MEANS = frozenset(("auc", "auroc", "dice", "f1", "iou", "miou", "perplexity", "ppl", "rmse"))
UNKNOWN = math.nan  # samples of a batch that nobody has counted: no mean can be made with them


class Means:
    """Sums of named values weighted by samples. `read` gives those of all ranks, and starts from
    zero."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor | float] = {}
        self.counts: dict[str, Tensor | float] = {}
        self.no_numbers: dict[str, str] = {}  # name -> what it was instead
        self.n_samples = 0  # of the last batch, which other callbacks count; 0: not known

    def add(
        self,
        outputs: Any,
        n_samples: int | None,
        loss_divisor: int = 1,
        suffix: str = "",
    ) -> None:
        """Adds what a step returned for a batch: a loss, or a dict, of which the numbers are taken.
        None adds nothing.

        Args:
            n_samples: that the values are means of; None: not known. A `batch_size` in the dict wins.
            loss_divisor: by which Lightning has divided the loss.
            suffix: of the names.
        """
        self.n_samples = n_samples or 0
        values = values_of(outputs)
        n = UNKNOWN if n_samples is None else n_samples
        if BATCH_SIZE in values:
            n = samples_said(values[BATCH_SIZE])
        for key, value in values.items():
            if key == BATCH_SIZE:
                continue
            name = f"{key}{suffix}"
            number = as_number(value)
            if number is None:
                self.no_numbers.setdefault(str(key), describe_value(value))
                continue
            # The sum of a mean that cannot be made still shows whether all values are finite.
            weight = 1 if n is UNKNOWN else n
            if key == "loss":
                weight = weight * loss_divisor
            self._add(name, number, weight)
            self.counts[name] = self.counts.get(name, 0) + n

    def _add(self, name: str, number: Tensor | float, weight: Tensor | float) -> None:
        total = self.sums.get(name, 0.0)
        if not isinstance(number, Tensor):
            self.sums[name] = total + number * weight
            return
        if not isinstance(total, Tensor):
            dtype = summing_dtype(number.device)
            total = torch.full((), total, dtype=dtype, device=number.device)
            self.sums[name] = total
        if isinstance(weight, Tensor):
            total.add_(number.to(total.dtype) * weight)
        else:
            total.add_(number, alpha=weight)

    def totals(self, trainer: L.Trainer) -> tuple[list[str], Tensor]:
        """The names of all ranks, and a row of sums and one of counts, (2, names); all ranks
        together."""
        names = agreed_names(trainer, sorted(self.sums))
        device = trainer.strategy.root_device
        dtype = summing_dtype(device)
        rows = [
            [torch.as_tensor(of.get(name, 0.0), dtype=dtype, device=device) for name in names]
            for of in (self.sums, self.counts)
        ]
        if not names:
            return names, torch.zeros(2, 0, dtype=dtype, device=device)
        total = torch.stack([torch.stack(row) for row in rows])
        if trainer.world_size > 1:
            torch.distributed.all_reduce(total)
        return names, total

    def mean_so_far(self, name: str) -> float | None:
        """The mean on this process; None when there is none. Waits for the device."""
        if name not in self.sums:
            return None
        n = float(self.counts[name])
        return float(self.sums[name]) / n if n > 0 else None

    def read(self, trainer: L.Trainer) -> Totals:
        """The sums over all ranks; empty when nothing was added. All ranks together."""
        names, total = self.totals(trainer)
        sums, counts = total.tolist()
        self.sums = {}
        self.counts = {}
        return Totals(dict(zip(names, sums, strict=True)), dict(zip(names, counts, strict=True)))


def values_of(outputs: Any) -> Mapping[str, Any]:
    """What a step returned, by name."""
    if outputs is None:
        return {}
    return outputs if isinstance(outputs, Mapping) else {"loss": outputs}


def samples_said(value: Any) -> Tensor | float:
    """The samples that a step says its batch has. A tensor is not looked at, which would wait for the device.

    Raises:
        Failed: no number, negative or NaN.
    """
    number = as_number(value)
    if number is None or not (isinstance(number, Tensor) or number >= 0):
        found = describe_value(value) if number is None else number
        raise Failed(
            f"a step returned {found} as {BATCH_SIZE}. Expected the number of its samples, such as "
            f'{{"loss": loss, "{BATCH_SIZE}": len(x)}}'
        )
    return number


def as_number(value: Any) -> Tensor | float | None:
    """A number, or a tensor without dimensions that needs no gradient; None: it is neither."""
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.is_complex():
            return None
        # Nothing to wait for, and Python adds faster. The product of a float64 would lose other bits.
        if value.is_cpu and value.dtype != torch.float64:
            return value.item()
        # `detach` costs more than the question whether it is needed.
        value = value.detach() if value.requires_grad else value
        return value.reshape(()) if value.ndim else value
    if isinstance(value, Real):  # NumPy's numbers too
        return float(value)
    return None


def describe_value(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def agreed_names(trainer: L.Trainer, names: list[str]) -> list[str]:
    """The names of all ranks, in one order. They are sent only where they differ."""
    if trainer.world_size == 1:
        return names
    device = trainer.strategy.root_device
    # 31 bits, which every back end can compare.
    digest = int.from_bytes(sha256("\n".join(names).encode()).digest()[:4], "big") >> 1
    ends = torch.tensor([digest, -digest], device=device)
    torch.distributed.all_reduce(ends, op=torch.distributed.ReduceOp.MAX)
    largest, negative_of_smallest = ends.tolist()
    if largest == -negative_of_smallest:
        return names
    of_ranks: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(of_ranks, names)
    return sorted({name for of_rank in of_ranks for name in of_rank})


@dataclass
class Totals:
    """Sums of named values of all ranks, each with the number of samples that it is over."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0.0) + other.counts[name]

    def means(self, prefix: str) -> dict[str, float]:
        """The means as <prefix>/<name>, without those whose samples nobody has counted."""
        return {
            f"{prefix}/{name}": value / self.counts[name]
            for name, value in self.sums.items()
            if self.counts[name] > 0
        }

    def not_finite(self, prefix: str) -> dict[str, float]:
        """The sums that are NaN or infinite, as <prefix>/<name>."""
        return {
            f"{prefix}/{name}": value
            for name, value in self.sums.items()
            if not math.isfinite(value)
        }


class LogMeans(L.Callback):
    """Logs the means as train/<name>, val/<name> and test/<name>, to all loggers and to
    `trainer.callback_metrics`. Of several validation or test loaders each has its own:
    val/<name>/<loader>, by the key that the data give it, else by its number.

    A row of train/<name> is the mean over a logging interval, or over the rest of an epoch. At the
    end of an epoch `callback_metrics` has the mean over all of it: for the line of the epoch, for
    callbacks with a monitor, and for the record of a finished run.

    A name that the task logs itself, by `self.log`, is the task's: then no mean is logged under it.

    Args:
        derived: `log.derived`, computed from the means of each row.
        watch: its values stand in the rows of the training; None: they have none.
    """

    def __init__(
        self, derived: Mapping[str, str] | None = None, watch: OptimizerWatch | None = None
    ) -> None:
        self.derived = Derived(derived or {})
        self.watch = watch
        self.train = Means()
        self.epoch = Totals()
        self.evaluation = Means()
        self.told: set[str] = set()  # what a line has said already
        self.suffixes: list[str] = []  # of the names, for each loader of an evaluation

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        n_samples = n_samples_of(trainer, batch)
        # Lightning gives the share of a batch in the gradient: its loss divided by their number.
        self.train.add(outputs, n_samples, trainer.accumulate_grad_batches)
        if n_samples is None:
            self._ask_for_size(trainer, "training_step", outputs, batch)
        if is_logging_step(trainer):
            self._publish_interval(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        # The epoch may have ended with a row; then this one is empty, and none is written.
        self._publish_interval(trainer, is_rest=True)
        means = self.derived.added_to(self.epoch.means("train"), "train", [""])
        set_metrics(trainer, self._without_own(trainer, means))
        self.epoch = Totals()

    def _publish_interval(self, trainer: L.Trainer, is_rest: bool = False) -> None:
        interval = self.train.read(trainer)
        if is_rest and not interval.sums:
            return
        self.epoch.add(interval)
        of_optimizers = self.watch.values() if self.watch else {}
        self._tell_what_is_no_number(trainer, "training_step", self.train)
        self._tell_what_has_no_samples(trainer, "training_step", interval)
        self._tell_what_is_no_mean(trainer, interval.sums)
        means = self.derived.added_to(interval.means("train"), "train", [""])
        self._publish(trainer, means, of_optimizers)
        self._require_finite(trainer, interval.not_finite("train"))

    def on_validation_batch_start(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if batch_idx == 0:  # of each loader, since the first may be empty
            self.suffixes = suffixes_of(loaders_of_stage(trainer))

    on_test_batch_start = on_validation_batch_start

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        n_samples = n_samples_of(trainer, batch, dataloader_idx)
        suffix = self.suffixes[dataloader_idx] if self.suffixes else ""
        self.evaluation.add(outputs, n_samples, suffix=suffix)
        if n_samples is None:
            step = "test_step" if trainer.testing else "validation_step"
            self._ask_for_size(trainer, step, outputs, batch)

    on_test_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.sanity_checking:
            self.evaluation = Means()  # of a few batches, before the training
            return
        self._publish_evaluation(trainer, "val", "validation_step")

    def on_test_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._publish_evaluation(trainer, "test", "test_step")

    def _publish_evaluation(self, trainer: L.Trainer, prefix: str, step: str) -> None:
        totals = self.evaluation.read(trainer)
        self._tell_what_is_no_number(trainer, step, self.evaluation)
        self._tell_what_has_no_samples(trainer, step, totals)
        self._tell_what_is_no_mean(trainer, totals.sums)
        means = totals.means(prefix)
        self._publish(trainer, self.derived.added_to(means, prefix, self.suffixes or [""]))

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

    def _require_finite(self, trainer: L.Trainer, values: dict[str, float]) -> None:
        if not values:
            return
        wrong = [f"{name} is {value}" for name, value in values.items()]
        raise Failed(
            f"{' and '.join(wrong)} in the {trainer.log_every_n_steps} steps up to step "
            f"{steps_done(trainer)}. Lower optimizer.lr, set trainer.gradient_clip_val=1.0, or look "
            "at the data."
        )

    def _without_own(self, trainer: L.Trainer, values: dict[str, float]) -> dict[str, float]:
        """The values without those that the task logs under the same name; says so once."""
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

    def _ask_for_size(self, trainer: L.Trainer, step: str, outputs: Any, batch: Any) -> None:
        """Says once that the samples of a batch are not known, unless the step says it."""
        values = values_of(outputs)
        if step in self.told or BATCH_SIZE in values or not values:
            return
        self.told.add(step)
        print_line(
            trainer,
            f"{step}: how many samples a batch has is not known ({describe_lengths(batch)}), so no "
            f"mean of what it returns is recorded. Let it return their number too: "
            f'return {{"loss": loss, "{BATCH_SIZE}": n}}',
        )

    def _tell_what_is_no_number(self, trainer: L.Trainer, step: str, means: Means) -> None:
        new = {
            name: what
            for name, what in means.no_numbers.items()
            if f"{step} {name}" not in self.told
        }
        if not new:
            return
        self.told |= {f"{step} {name}" for name in new}
        named = ", ".join(f"{name} ({what})" for name, what in sorted(new.items()))
        print_line(trainer, f"{step}: no number, so not recorded: {named}")

    def _tell_what_has_no_samples(self, trainer: L.Trainer, step: str, totals: Totals) -> None:
        names = sorted(name for name, n in totals.counts.items() if n <= 0)
        line = f"{step}: not recorded: {', '.join(names)}. Its {BATCH_SIZE} adds up to no samples"
        if names and line not in self.told:
            self.told.add(line)
            print_line(trainer, line)

    def _tell_what_is_no_mean(self, trainer: L.Trainer, names: Iterable[str]) -> None:
        """Says once of each name that its mean over batches depends on their size."""
        returned = {name.partition("/")[0] for name in names} - self.derived.codes.keys()
        new = {name for name in returned if not NO_MEANS.isdisjoint(name.lower().split("_"))}
        new -= self.told
        if not new:
            return
        self.told |= new
        print_line(
            trainer,
            f"{', '.join(sorted(new))}: recorded as the mean of its value in each batch, which depends "
            "on data.batch_size.\nReturn the means that it is made of, and write in the trial's YAML "
            "how, such as log: {derived: {ppl: exp(loss)}}. More: lab docs own-code",
        )

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["means"] = self.train.totals(trainer)
        checkpoint["means_of_epoch"] = asdict(self.epoch)

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.state.fn != "fit" or "means" not in checkpoint:
            return
        self.epoch = Totals(**checkpoint["means_of_epoch"])
        # Sums of all ranks: the first continues with them, the others start from zero.
        names, totals = checkpoint["means"]
        if trainer.is_global_zero:
            sums, counts = totals.to(trainer.strategy.root_device)
            self.train.sums = dict(zip(names, sums.unbind(), strict=True))
            self.train.counts = dict(zip(names, counts.tolist(), strict=True))


def suffixes_of(loaders: Any) -> list[str]:
    """What the names of each loader's means end with: nothing for one loader."""
    if isinstance(loaders, Mapping):
        # The order in which Lightning takes them.
        return [f"/{name}" for name in loaders]
    if isinstance(loaders, list | tuple) and len(loaders) > 1:
        return [f"/{n}" for n in range(len(loaders))]
    return []


def set_metrics(trainer: L.Trainer, values: dict[str, float]) -> None:
    """For callbacks with a monitor."""
    trainer.callback_metrics.update({name: torch.tensor(value) for name, value in values.items()})


def summing_dtype(device: torch.device) -> torch.dtype:
    """Double precision, which Apple's GPUs do not have."""
    return torch.float32 if device.type == "mps" else torch.float64
