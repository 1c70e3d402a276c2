"""The first lines of a training: the network, a batch, and how the global batch comes about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as L
from torch import Tensor

from ...hdf5.read.datamodule import H5DataModule, data_ranks
from ...machine.counted import counted
from ..parts.lazy_layers import n_parameters_of, sized_parameters, unsized_tensors
from .batch_size import n_samples_of
from .print_line import print_line

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
    shapes = [
        f"{name} {tensor_type(tensor)} {tuple(tensor.shape)}".lstrip()
        for name, tensor in tensors_of(batch)
    ]
    further = [f"and {len(shapes) - MAX_TENSORS} more"] if len(shapes) > MAX_TENSORS else []
    return ", ".join(shapes[:MAX_TENSORS] + further) or type(batch).__name__


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
