# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Warns when a training is unhealthy: slow data, unused parameters, values out of bounds, no finite loss."""

from __future__ import annotations

import json
import resource
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig

from ..errors import Failed
from ..machine.gpu import energy_j
from .lightning_internals import fetches_watched
from .means import batch_size_of
from .steps import is_logging_step, steps_done

WAITS, UNUSED = (
    0.5,
    20,
)  # more than this share of the time waiting for data, or a GPU used less than this %, is told


class Health(L.Callback):
    """A row of speed.jsonl per logging interval, also to the loggers; stops at a metric that cannot be what it says.

    speed/samples_per_s (of all processes), speed/data_wait (share of the time in which the loop waited for a batch),
    speed/memory_gb (peak, of the device or of this process), on CUDA speed/gpu_use (%) and speed/power_w (of the GPUs
    that this process sees). Validation, and what happens between two epochs, is not counted.

    Args:
        folder: the run directory.
        bounds: name of a metric (after the last /) -> [low, high].
    """

    def __init__(self, folder: Path, bounds: dict[str, Any]) -> None:
        self.file, self.bounds, self.warm, self.told = folder / "speed.jsonl", bounds, False, False
        self.watching = ExitStack()

    def begin(self, *_: Any) -> None:
        self.since_s, self.since_j, self.wait_s, self.n_samples = (
            time.perf_counter(),
            energy_j(),
            0.0,
            0,
        )

    on_train_epoch_start = begin

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        watch = fetches_watched(trainer, partial(self.fetch, -1), partial(self.fetch, 1))
        self.measures_wait = self.watching.enter_context(watch)
        self.begin()

    def fetch(self, sign: int) -> None:
        self.wait_s += sign * time.perf_counter()

    def on_train_end(self, *_: Any) -> None:
        self.watching.close()

    on_exception = on_train_end

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.n_samples += batch_size_of(batch)
        if is_logging_step(trainer):
            if trainer.is_global_zero:
                self.report(trainer, steps_done(trainer))
            self.check(trainer)

    def report(self, trainer: L.Trainer, step: int) -> None:
        seconds, device = time.perf_counter() - self.since_s, trainer.strategy.root_device
        on_gpu, n_bytes = (
            device.type == "cuda",
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )
        values = {"samples_per_s": self.n_samples * trainer.world_size / seconds}
        if self.measures_wait:
            values["data_wait"] = self.wait_s / seconds
        values["memory_gb"] = (torch.cuda.max_memory_reserved(device) if on_gpu else n_bytes) / 1e9
        with suppress(ModuleNotFoundError, RuntimeError):  # NVML does not answer
            values |= {"gpu_use": torch.cuda.utilization(device)} if on_gpu else {}
        if self.since_j is not None:
            values["power_w"] = (energy_j() - self.since_j) / seconds
        values = {f"speed/{name}": round(value, 4) for name, value in values.items()}
        row = {
            "step": step,
            "epoch": trainer.current_epoch,
            "time_unix_s": round(time.time(), 3),
        } | values
        with open(
            self.file, "a", encoding="utf-8"
        ) as file:  # not metrics.jsonl, which repeats bit for bit
            file.write(json.dumps(row) + "\n")
        for logger in trainer.loggers[1:]:
            logger.log_metrics(values, step=step - 1)
        wait, use = values.get("speed/data_wait", 0), values.get("speed/gpu_use", 100)
        if self.warm and not self.told and (wait > WAITS or use < UNUSED):
            gpu, self.told = f", the GPU is used {use:.0f} %" if on_gpu else "", True
            print(
                f"speed: {wait:.0%} of the time goes by waiting for data{gpu} (step {step}). What is slow: lab bench"
            )
        self.warm = True

    def check(self, trainer: L.Trainer, *_: Any) -> None:
        for name, value in trainer.callback_metrics.items():
            short = name.rpartition("/")[2]
            low, high = self.bounds.get(short) or (-torch.inf, torch.inf)
            if (
                value < low - 1e-4 or value > high + 1e-4
            ):  # a perfect score of float32 may be 1.0000001
                outside = (
                    f"{name} is {float(value):.6g}, outside of log.bounds.{short}=[{low},{high}]"
                )
                cause = "a sum was made for a mean: return the value from the step, or self.log(..., sync_dist=True)"
                raise Failed(
                    f"{outside}: {cause}. If it has another scale: log.bounds.{short}=[0,100]"
                )
        self.begin()

    on_validation_end = check


def add_health(
    trainer: L.Trainer, config: DictConfig, profile: list[L.Callback], folder: Path
) -> L.Trainer:
    """Adds health (after the means, whose reading waits for the device) and the profiler (first of all) to a Trainer."""
    trainer.callbacks.insert(2, Health(folder, config.log.bounds))
    trainer.callbacks[:0] = profile
    return trainer
