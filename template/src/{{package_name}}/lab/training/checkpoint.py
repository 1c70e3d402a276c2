# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checkpoints of plain types, written under a temporary name and renamed: last.ckpt, previous.ckpt, best.ckpt."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.fabric.utilities.seed import _collect_rng_states, _set_rng_states
from lightning.pytorch.callbacks import Checkpoint as LightningCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from ..errors import LabError
from .preemption import nothing_pending


class AtomicCheckpointIO(TorchCheckpointIO):
    """Saves plain types only, aside and renamed. A full disk is remembered in `error`, so that no rank waits for another."""

    error: OSError | None = None

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        path, self.error = Path(path), None
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        content = plain_types(checkpoint)
        try:
            with open(aside, "wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                os.replace(path, path.with_name("previous.ckpt"))
            os.replace(aside, path)
        except (
            OSError,
            RuntimeError,
        ) as error:  # torch's writer turns a failed write into a RuntimeError
            aside.unlink(missing_ok=True)
            if isinstance(error, RuntimeError) and "inline_container" not in str(error):
                raise
            self.error = (
                error if isinstance(error, OSError) else OSError(errno.ENOSPC, "no space left")
            )


class Checkpoints(LightningCheckpoint):
    """Keeps last.ckpt and previous.ckpt, and best.ckpt by a metric; random generators of every rank go with them.

    Args:
        directory: where they go.
        every_min: minutes between checkpoints within an epoch, > 0.
        monitor: metric that chooses best.ckpt, such as "val/loss"; None for no best.ckpt.
        mode: "min" or "max" of it.
    """

    def __init__(
        self, directory: Path, *, every_min: float, monitor: str | None, mode: str
    ) -> None:
        self.directory, self.every_s, self.monitor, self.mode = (
            Path(directory),
            60 * every_min,
            monitor,
            mode,
        )
        self.best: float | None = None
        self.saved_at_s = time.monotonic()
        self.random_states: list[dict[str, Any]] = []

    def save_now(self, trainer: L.Trainer) -> None:
        """Saves last.ckpt; to be called on all ranks together.

        Raises:
            OSError: on every rank, when the disk is full or the quota used up; the checkpoint before stays.
        """
        trainer.save_checkpoint(self.directory / "last.ckpt")
        self.saved_at_s = time.monotonic()
        error = trainer.strategy.checkpoint_io.error
        number = trainer.strategy.broadcast(error.errno if error else None)
        if number:
            raise OSError(number, os.strerror(number), str(self.directory)) from error

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.saved_at_s = time.monotonic()
        # a schedule that asks for the number of steps makes Lightning build the loader before it knows their state
        trainer.fit_loop._load_combined_loader_states()
        if (
            len(self.random_states) == trainer.world_size
        ):  # going on from a checkpoint, with as many ranks
            state = self.random_states[trainer.global_rank]
            state["numpy"] = tuple(
                item.numpy() if isinstance(item, torch.Tensor) else item for item in state["numpy"]
            )
            _set_rng_states(state)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        loop = trainer.fit_loop.epoch_loop
        logs_now = (loop._batches_that_stepped + 1) % trainer.log_every_n_steps == 0
        if not logs_now or not nothing_pending(loop, trainer.fit_loop._data_fetcher):
            return
        if trainer.strategy.broadcast(
            time.monotonic() - self.saved_at_s > self.every_s
        ):  # by rank 0's clock
            self.save_now(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        value = trainer.callback_metrics.get(self.monitor) if self.monitor else None
        better = (
            value is not None
            and math.isfinite(value)
            and (self.best is None or self._is_better(float(value)))
        )
        if better:
            self.best = float(value)
        self.save_now(trainer)
        if better and trainer.is_global_zero:
            _copy(self.directory / "last.ckpt", self.directory / "best.ckpt")

    def _is_better(self, value: float) -> bool:
        return value < self.best if self.mode == "min" else value > self.best

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        own = _collect_rng_states(include_cuda=trainer.strategy.root_device.type == "cuda")
        states = [own] * trainer.world_size
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(states, own)
        checkpoint["random_states"] = states  # of every rank

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.random_states = checkpoint.get("random_states", [])

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def plain_types(value: Any, where: str = "checkpoint") -> Any:
    """The same content in types that `torch.load(weights_only=True)` accepts.

    Raises:
        LabError: something else is in there, with its place.
    """
    if isinstance(value, Mapping):
        return {key: plain_types(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [plain_types(item, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, np.generic | np.ndarray):
        return value.item() if isinstance(value, np.generic) else torch.from_numpy(value)
    if value is None or isinstance(
        value, torch.Tensor | bool | int | float | complex | str | bytes | set | torch.dtype
    ):
        return value
    raise LabError(
        f"{where} is a {type(value).__name__}, which checkpoints do not hold (they load with weights_only=True). "
        "Return tensors, numbers, texts, lists and dicts from state_dict and on_save_checkpoint."
    )


def last_checkpoint(directory: Path) -> Path | None:
    """The checkpoint to continue from, or None; the one before the last when a kill came between two renames."""
    return next(
        (path for name in ("last.ckpt", "previous.ckpt") if (path := directory / name).is_file()),
        None,
    )


def _copy(source: Path, target: Path) -> None:
    aside = target.with_name(f".{target.name}.tmp")
    aside.unlink(missing_ok=True)
    try:
        os.link(source, aside)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, aside)
    os.replace(aside, target)
