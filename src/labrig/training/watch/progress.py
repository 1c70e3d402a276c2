"""The first lines of a training, and its progress: lines for a log, and Lightning's bar on a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import EarlyStopping, Timer, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from omegaconf import DictConfig
from torch import Tensor

from ...hdf5.read.datamodule import H5DataModule, data_ranks
from ...machine.text_formats import and_more, counted
from ...record.read.ranking import split_of
from ..exact.steps import ends_epoch, steps_done
from ..parts.accelerate import n_parameters_of, sized_parameters, unsized_tensors
from .batch_size import n_samples_of
from .means import LogMeans
from .optimizer_watch import OptimizerWatch
from .print_line import print_line
from .standing import Pace, of_total, total_epochs

HIDDEN = ("test/", "speed/")  # metrics that an epoch's line does not show


class EpochLines(L.Callback):
    """The first rank prints a line after each epoch, and why the training ended early.

    Metrics of validation stand in the lines of epochs that were validated.
    """

    validated_epoch: int | None = None

    def on_train_start(self, *_: Any) -> None:
        # A training that resumes within an epoch has no on_train_epoch_start.
        self.began_s = time.monotonic()

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.began_s = time.monotonic()

    def on_validation_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.metrics_before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """A validation within an epoch has a line of its own."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self.validated_epoch = trainer.current_epoch
        if ends_epoch(trainer):
            return
        validated = {
            name: value
            for name, value in trainer.callback_metrics.items()
            if value is not self.metrics_before.get(name)
        }
        if validated:
            step = f"validation after step {steps_done(trainer)}"
            print_line(trainer, "  ".join([step, *shown_metrics(validated)]))

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        is_validated = self.validated_epoch == trainer.current_epoch
        metrics = shown_metrics(
            {
                name: value
                for name, value in trainer.callback_metrics.items()
                if is_validated or split_of(name) != "val"
            }
        )
        epoch = f"epoch {of_total(trainer.current_epoch + 1, total_epochs(trainer))}"
        seconds = time.monotonic() - self.began_s
        print_line(trainer, "  ".join([epoch, *metrics, f"({seconds:.1f} s)"]))

    def on_train_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.should_stop:
            reason = "; ".join(stop_reasons(trainer)) or "a callback asked for it"
            print_line(trainer, f"stopped early after epoch {trainer.current_epoch}: {reason}")


def shown_metrics(metrics: Mapping[str, Any]) -> list[str]:
    """Names and values, sorted, as text."""
    return [
        f"{name} {float(value):.4f}"
        for name, value in sorted(metrics.items())
        if not name.startswith(HIDDEN) and not name.endswith("_step")
    ]


def stop_reasons(trainer: L.Trainer) -> list[str]:
    """Why Lightning's callbacks ended a training before its last epoch."""
    reasons = []
    for callback in trainer.callbacks:
        if isinstance(callback, Timer) and (callback.time_remaining() or 1) <= 0:
            reasons.append("the time of the Timer is over (trainer.max_time)")
        if isinstance(callback, EarlyStopping):
            message = getattr(callback, "stopping_reason_message", None) or ""
            reasons.append(message.removesuffix("Signaling Trainer to stop.").rstrip(". "))
    return [reason for reason in reasons if reason]


class StepLines(L.Callback):
    """The first rank prints a line every `every_s` seconds: where the training or a validation is.

    Args:
        every_s: seconds, >= 0. A batch that takes longer is not interrupted.
        pace: knows where the training is.
    """

    def __init__(self, every_s: float, pace: Pace) -> None:
        self.every_s = every_s
        self.pace = pace
        self.printed_s = 0.0

    def on_train_start(self, *_: Any) -> None:
        self.printed_s = time.monotonic()

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self._is_due() and trainer.is_global_zero:
            facts = self.pace.standing(trainer).facts()
            print_line(trainer, "  ".join(f"{name} {value}" for name, value in facts.items()))

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        n_batches = trainer.num_val_batches[dataloader_idx]
        self._print_evaluation(trainer, "validation", batch_idx, n_batches)

    def on_test_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        n_batches = trainer.num_test_batches[dataloader_idx]
        self._print_evaluation(trainer, "test", batch_idx, n_batches)

    def _print_evaluation(
        self, trainer: L.Trainer, name: str, batch_idx: int, n_batches: float
    ) -> None:
        if self._is_due():
            total = int(n_batches) if math.isfinite(n_batches) else None
            print_line(trainer, f"{name}: batch {of_total(batch_idx + 1, total)}")

    def _is_due(self) -> bool:
        if time.monotonic() - self.printed_s < self.every_s:
            return False
        self.printed_s = time.monotonic()
        return True


class Bar(TQDMProgressBar):
    """Lightning's progress bar, drawn once a second at most, because drawing takes time.

    Behind the bar of the epoch stand the facts of a line of the log.

    Args:
        pace: knows where the training is.
    """

    drawn_s = 0.0

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace

    def init_train_tqdm(self) -> Tqdm:
        bar = super().init_train_tqdm()
        bar.leave = False
        # Without the time and rate of an epoch, so that the facts fit into 80 columns.
        bar.bar_format = "{desc}:{bar}| {n_fmt}/{total_fmt}{postfix}"
        return bar

    def on_train_epoch_start(self, trainer: L.Trainer, *args: Any) -> None:
        super().on_train_epoch_start(trainer, *args)
        # Counted from 1, as in the lines.
        self.train_progress_bar.set_description(f"epoch {trainer.current_epoch + 1}")

    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, pl_module)
        # The id of the run, which was printed already.
        metrics.pop("v_num", None)
        if not trainer.training or not self.pace.n_batches:
            return metrics
        facts = self.pace.standing(trainer).facts()
        # It stands in front of the bar.
        facts.pop("epoch")
        return facts | metrics

    def on_train_batch_end(self, *args: Any) -> None:
        if self._is_due():
            super().on_train_batch_end(*args)

    def on_validation_batch_end(self, *args: Any) -> None:
        if self._is_due():
            super().on_validation_batch_end(*args)

    def _is_due(self) -> bool:
        if time.monotonic() - self.drawn_s < 1:
            return False
        self.drawn_s = time.monotonic()
        return True


def build_progress(
    log: DictConfig,
    callbacks: list[L.Callback],
    means: LogMeans,
    watch: OptimizerWatch,
) -> list[L.Callback]:
    """The callbacks that show progress.

    Args:
        log: the section `log`. `progress`: True, False, or "auto": True on a terminal.
        callbacks: the user's; a progress bar among them takes the place of ours.
        means, watch: what the lines show.
    """
    has_own_bar = any(isinstance(callback, L.callbacks.ProgressBar) for callback in callbacks)
    if has_own_bar:
        return [FirstLines(), EpochLines()]
    pace = Pace(means.train, watch)
    shows_bar = sys.stdout.isatty() if log.progress == "auto" else log.progress
    shown = Bar(pace) if shows_bar else StepLines(log.get("every_s", 60), pace)
    # The pace before what shows it.
    return [pace, shown, FirstLines(), EpochLines()]


MAX_TENSORS = 6  # of a batch, whose shapes are shown


class FirstLines(L.Callback):
    """The first rank prints what is trained, and with the first batch what it is trained on."""

    has_shown_batch = False
    has_shown_sizes = True  # False while the first batch has not decided all

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.has_shown_sizes = not unsized_tensors(pl_module)
        n_batches = trainer.num_training_batches
        epochs = "an epoch ends with its data"
        if math.isfinite(n_batches):
            epochs = f"{counted(int(n_batches), 'batch')} an epoch"
        print_line(trainer, f"{describe_network(pl_module)}, {epochs}")
        limit = trainer.limit_train_batches
        is_limited = limit is not None and not (isinstance(limit, float) and limit == 1.0)
        if is_limited and trainer.max_epochs != 1 and isinstance(trainer.datamodule, H5DataModule):
            print_line(
                trainer,
                f"trainer.limit_train_batches={limit}: other samples in each epoch. "
                "The same in all: data.fraction=0.1",
            )

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.has_shown_batch:
            if not self.has_shown_sizes:
                self.has_shown_sizes = True
                print_line(trainer, describe_network(pl_module))
            return
        self.has_shown_batch = True
        # Before the step, which may fail because of the shapes.
        print_line(trainer, f"batch: {describe_batch(batch)}")
        n_samples = n_samples_of(trainer, batch)
        if n_samples is not None:
            n_processes = data_ranks(trainer)[1]
            print_line(
                trainer, global_batch_line(n_samples, n_processes, trainer.accumulate_grad_batches)
            )


def describe_network(task: L.LightningModule) -> str:
    """`Classifier of CNN: 151,306 parameters`; those that are not trained are counted apart.

    Before the first batch it counts the lazy layers, which have no size yet.
    """
    n_all = n_parameters_of(task)
    n_trained = sum(
        parameter.numel() for parameter in sized_parameters(task) if parameter.requires_grad
    )
    n_unsized = len(unsized_tensors(task))
    model = getattr(task, "model", None)
    of_model = f" of {type(model).__name__}" if model is not None else ""
    frozen = f" ({n_trained:,} trained)" if n_trained != n_all else ""
    unsized = f" and {counted(n_unsized, 'tensor')} that the first batch sizes" if n_unsized else ""
    return f"{type(task).__name__}{of_model}: {n_all:,} parameters{frozen}{unsized}"


def describe_batch(batch: Any) -> str:
    """The types and shapes of the tensors in a batch, each with its name if it has one."""
    shapes = (
        f"{name} {tensor_type(tensor)} {tuple(tensor.shape)}".lstrip()
        for name, tensor in tensors_of(batch)
    )
    return and_more(shapes, MAX_TENSORS) or type(batch).__name__


def tensor_type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def tensors_of(batch: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors in a batch of lists, tuples and dicts, with the key of the innermost dict."""
    if isinstance(batch, Tensor):
        yield name, batch
    elif isinstance(batch, Mapping):
        for key, part in batch.items():
            yield from tensors_of(part, str(key))
    elif isinstance(batch, list | tuple):
        for part in batch:
            yield from tensors_of(part, name)


def global_batch_line(n_samples: int, n_processes: int, n_accumulated: int) -> str:
    """How many samples a step of the optimizer has, and why.

    Args:
        n_samples: in the batch of one process.
        n_processes: that train together.
        n_accumulated: batches per optimizer step.
    """
    return (
        f"global batch: {n_samples * n_processes * n_accumulated:,} samples per step "
        f"= {n_samples:,} per process × {counted(n_processes, 'process')} "
        f"× {n_accumulated} accumulated"
    )
