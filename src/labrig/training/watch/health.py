"""The health of a training: its speed, slow data, metrics outside of their bounds."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig

from ... import env
from ...errors import Failed
from ...hdf5.read.datamodule import data_ranks
from ...machine.gpu import IDLE_MIN, energy_j, utilization_percent, wait_until_idle
from ...project import this_project
from ...record.read.run import Run
from ..exact.steps import is_logging_step, steps_done
from ..lightning_internals import fetches_watched
from .means import Means
from .messages import notify_idle

MAX_DATA_WAIT = 0.5  # share of the time; a warning above it
MIN_GPU_USE = 20  # percent; a warning below it
ROUNDING = 1e-4  # a perfect score of float32 may be 1.0000001


class Health(L.Callback):
    """Writes a row of speed.jsonl per logging interval, and the same values to the loggers.

    It warns once when data or GPU are slow, and stops at a metric outside of its bounds.

    speed/samples_per_s   of all processes
    speed/data_wait       share of the time in which the training loop waited for a batch
    speed/memory_gb       peak of the device, or of this process on a CPU
    speed/gpu_use         percent (CUDA)
    speed/power_w         of the GPUs that this process sees (CUDA)

    Validation, and what happens between two epochs, is not counted.

    Args:
        folder: the run directory.
        bounds: last part of a metric's name (val/acc: acc) -> [low, high].
        means: those of the training, which have counted the samples of a batch.
    """

    def __init__(self, folder: Path, bounds: DictConfig, means: Means) -> None:
        self.means = means
        # Not metrics.jsonl: its rows are the same in every repetition of a run.
        self.file = folder / "speed.jsonl"
        self.bounds = bounds
        self.n_rows = 0
        self.has_warned = False
        self.measures_wait = False
        self.watching = ExitStack()

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        watch = fetches_watched(
            trainer, partial(self._count_fetch, -1), partial(self._count_fetch, 1)
        )
        self.measures_wait = self.watching.enter_context(watch)
        self._begin_interval()

    def _count_fetch(self, sign: int) -> None:
        """Adds the time of a fetch to `wait_s`: minus its beginning, plus its end."""
        self.wait_s += sign * time.perf_counter()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.watching.close()

    on_exception = on_train_end

    def on_train_epoch_start(self, *_: Any) -> None:
        self._begin_interval()

    def _begin_interval(self) -> None:
        self.began_s = time.perf_counter()
        self.began_j = energy_j()
        self.wait_s = 0.0
        self.n_samples = 0

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.n_samples += self.means.n_samples
        if not is_logging_step(trainer):
            return
        if trainer.is_global_zero:
            self._write_row(trainer, steps_done(trainer))
        self._check_bounds(trainer)
        self._begin_interval()

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._check_bounds(trainer)
        self._begin_interval()

    def _write_row(self, trainer: L.Trainer, step: int) -> None:
        speed = self._measure(trainer)
        row = {
            "step": step,
            "epoch": trainer.current_epoch,
            "attempt": int(os.environ.get(env.ATTEMPT, 1)),
            "time_unix_s": round(time.time(), 3),
        }
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(row | speed) + "\n")
        for logger in trainer.loggers[1:]:
            logger.log_metrics(speed, step=step - 1)
        # The first interval holds the start of the workers and the first, slow steps.
        if self.n_rows > 0:
            self._warn_once(speed, step)
        self.n_rows += 1

    def _measure(self, trainer: L.Trainer) -> dict[str, float]:
        """The values of the interval that ends now."""
        seconds = time.perf_counter() - self.began_s
        device = trainer.strategy.root_device
        speed = {
            "speed/memory_gb": peak_memory_bytes(device) / 1e9,
        }
        if self.n_samples:
            speed["speed/samples_per_s"] = self.n_samples * data_ranks(trainer)[1] / seconds
        if self.measures_wait:
            speed["speed/data_wait"] = self.wait_s / seconds
        if device.type == "cuda":
            gpu_use = utilization_percent(device.index)
            if gpu_use is not None:
                speed["speed/gpu_use"] = gpu_use
        now_j = energy_j()
        if now_j is not None and self.began_j is not None:
            speed["speed/power_w"] = (now_j - self.began_j) / seconds
        return {name: round(value, 4) for name, value in speed.items()}

    def _warn_once(self, speed: dict[str, float], step: int) -> None:
        data_wait = speed.get("speed/data_wait", 0.0)
        gpu_use = speed.get("speed/gpu_use")
        gpu_is_idle = gpu_use is not None and gpu_use < MIN_GPU_USE
        if self.has_warned or (data_wait <= MAX_DATA_WAIT and not gpu_is_idle):
            return
        self.has_warned = True
        gpu = "" if gpu_use is None else f", the GPU is busy {gpu_use:.0f} %"
        print(
            f"speed: the training loop waits for data {data_wait:.0%} of the time{gpu} "
            f"(step {step}). To find the cause: lab bench trial=..."
        )

    def _check_bounds(self, trainer: L.Trainer) -> None:
        """Compares the newest metrics with `log.bounds`."""
        for name, value in trainer.callback_metrics.items():
            key = name.rpartition("/")[2]
            bounds = self.bounds.get(key)
            if bounds is None:
                continue
            low, high = bounds
            if value < low - ROUNDING or value > high + ROUNDING:
                raise Failed(
                    f"{name} is {float(value):.6g}; log.bounds.{key} allows {low} to {high}. "
                    "Probably it was summed over processes instead of averaged: return it from the "
                    "step, or use self.log(..., sync_dist=True). "
                    f"For percentages set log.bounds.{key}=[0,100]."
                )


def peak_memory_bytes(device: torch.device) -> int:
    """Peak of the device, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Tells when the GPUs of a training do nothing, because it hangs or waits for its data.


class IdleWatch(L.Callback):
    """With `notify` and a GPU: a thread of the first rank looks at its GPU every 30 seconds.

    A thread, because a training that hangs calls no hook.
    """

    def __init__(self, config: DictConfig, run: Run) -> None:
        self.config = config
        self.run = run
        self.has_ended = threading.Event()

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        device = trainer.strategy.root_device
        if self.config.get("notify") and device.type == "cuda" and trainer.is_global_zero:
            self.has_ended.clear()
            threading.Thread(target=self._watch, args=[device.index], daemon=True).start()

    def _watch(self, index: int) -> None:
        is_idle = wait_until_idle(
            lambda: not self.has_ended.is_set(),
            lambda: [utilization_percent(index)],
            sleep=self.has_ended.wait,
        )
        if is_idle:
            notify_idle(self.config, self.run, this_project(), IDLE_MIN)

    def on_fit_end(self, *_: Any, **__: Any) -> None:
        self.has_ended.set()

    on_exception = on_fit_end
