"""Checkpoints of plain types, written to a temporary file that is renamed: last.ckpt,
previous.ckpt, best.ckpt."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Checkpoint as LightningCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from ..errors import LabError
from .lightning_internals import (
    begin_after_finished_epoch,
    count_finished_epoch,
    load_loader_states,
    resume_epoch,
)
from .random_state import RandomState, read_random_state, set_random_state
from .steps import is_logging_step, nothing_pending

# What `torch.load(weights_only=True)` accepts, besides None, tensors, lists, tuples, sets and dicts.
PLAIN = (bool, int, float, complex, str, bytes, torch.dtype)
BASES = (int, float, complex, str, bytes)  # a value of a class derived from one of them becomes it
HYPER_PARAMETERS = "hyper_parameters"  # where Lightning puts self.save_hyperparameters()


class AtomicCheckpointIO(TorchCheckpointIO):
    """Saves plain types only, to a temporary file that is then renamed.

    A disk that takes no more does not raise: only one rank writes, and the others would wait for it.
    Its error is in `error` until `Checkpoints` raises it on all ranks, at the end of the epoch at the
    latest.

    Args:
        directory: where last.ckpt, when it is written again, becomes previous.ckpt; None: nowhere.
    """

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__()
        self.last = directory / "last.ckpt" if directory else None
        self.error: OSError | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        content = plain_types(checkpoint)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
            if path == self.last and path.exists():
                os.replace(path, path.with_name("previous.ckpt"))
            os.replace(temporary, path)
        except OSError as error:
            remove(temporary)
            self.error = self.error or OSError(error.errno, error.strerror, str(path))
        except RuntimeError as error:
            remove(temporary)
            # torch's writer turns a failed write into a RuntimeError.
            if "inline_container" not in str(error):
                raise
            self.error = self.error or OSError(errno.ENOSPC, "no space left", str(path))


def remove(path: Path) -> None:
    """Removes a file, which may not be there, on a disk that may be read-only."""
    with suppress(OSError):
        path.unlink()


class Checkpoints(LightningCheckpoint):
    """Keeps last.ckpt and previous.ckpt, and best.ckpt by a metric. Each holds the random
    generators of every rank.

    Args:
        directory: where they are.
        every_min: minutes between checkpoints within an epoch, > 0.
        monitor: metric that chooses best.ckpt, such as "val/loss"; None for no best.ckpt.
        mode: "min" or "max" of it.
    """

    def __init__(
        self, directory: Path, *, every_min: float, monitor: str | None, mode: str
    ) -> None:
        self.directory = Path(directory)
        self.every_s = 60 * every_min
        self.monitor = monitor
        self.mode = mode
        self.best: float | None = None
        self.saved_at_s = time.monotonic()
        self.checkpoint_loops: dict[str, Any] = {}
        self.random_states: list[RandomState] = []

    def save_now(self, trainer: L.Trainer) -> None:
        """Saves last.ckpt; to be called on all ranks together.

        Raises:
            OSError: on every rank, when this checkpoint or one of another callback could not be
                written; the last checkpoint stays.
        """
        trainer.save_checkpoint(self.directory / "last.ckpt")
        self.saved_at_s = time.monotonic()
        error = trainer.strategy.checkpoint_io.error
        errno_and_place = (error.errno, error.filename) if error else None
        errno_and_place = trainer.strategy.broadcast(errno_and_place)
        if errno_and_place:
            number, place = errno_and_place
            raise OSError(number, os.strerror(number), place) from error

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.saved_at_s = time.monotonic()
        load_loader_states(trainer, self.checkpoint_loops)
        begin_after_finished_epoch(trainer)
        resume_epoch(trainer)
        # Each rank continues with its own random numbers; with another number of ranks there are none for it.
        if len(self.random_states) == trainer.world_size:
            set_random_state(self.random_states[trainer.global_rank])

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if not is_logging_step(trainer) or not nothing_pending(trainer):
            return
        is_due = time.monotonic() - self.saved_at_s > self.every_s
        # By the clock of the first rank, so that all ranks save together.
        if trainer.strategy.broadcast(is_due):
            self.save_now(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        value = trainer.callback_metrics.get(self.monitor) if self.monitor else None
        improved = value is not None and self._is_better(float(value))
        if value is not None and improved:
            self.best = float(value)
        self.save_now(trainer)
        if improved and trainer.is_global_zero:
            link_or_copy(self.directory / "last.ckpt", self.directory / "best.ckpt")

    def _is_better(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        return value < self.best if self.mode == "min" else value > self.best

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        state = read_random_state(cuda=trainer.strategy.root_device.type == "cuda")
        states = [state] * trainer.world_size
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(states, state)
        checkpoint["random_states"] = states

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.random_states = checkpoint.get("random_states", [])
        self.checkpoint_loops = checkpoint.get("loops", {})
        count_finished_epoch(self.checkpoint_loops)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def plain_types(value: Any, name: str = "checkpoint") -> Any:
    """The same content in types that `torch.load(weights_only=True)` accepts.

    Arrays become tensors, sequences lists, mappings dicts, and an enum its value.

    Raises:
        LabError: `value` holds something else; the message says where.
    """
    if isinstance(value, Enum):
        return plain_types(value.value, name)
    # Before the plain types: numpy's float64 is a float too.
    if isinstance(value, np.generic):
        return plain_types(value.item(), name)
    if isinstance(value, np.ndarray):
        is_numeric = value.dtype.kind in "biufc"
        return torch.from_numpy(value) if is_numeric else plain_types(value.tolist(), name)
    if value is None or type(value) in PLAIN or isinstance(value, torch.Tensor):
        return value
    base: Any
    for base in BASES:
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Mapping):
        keys = [plain_types(key, f"a key of {name}") for key in value]
        items = [plain_types(item, f"{name}.{key}") for key, item in value.items()]
        return dict(zip(keys, items, strict=True))
    if isinstance(value, Sequence | set):
        items = [plain_types(item, f"{name}[{i}]") for i, item in enumerate(value)]
        kinds = [kind for kind in (tuple, set) if isinstance(value, kind)]
        return kinds[0](items) if kinds else items
    raise LabError(_not_plain(value, name))


def _not_plain(value: Any, name: str) -> str:
    """What to do about a value that no checkpoint can hold."""
    problem = f"{name} is a {type(value).__name__}. A checkpoint cannot hold it."
    section, _, argument = name.removeprefix("checkpoint.").partition(".")
    if section == HYPER_PARAMETERS:
        argument = argument.split(".")[0].split("[")[0]
        return f"{problem}\nLeave it out: self.save_hyperparameters(ignore=[{argument!r}])"
    return (
        f"{problem}\nReturn tensors, numbers, texts, lists and dicts from state_dict "
        "and on_save_checkpoint."
    )


def link_or_copy(source: Path, target: Path) -> None:
    """`target` becomes a hard link to `source`, or a copy on a file system without hard links."""
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    os.replace(temporary, target)
