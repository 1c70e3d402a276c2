"""Forecast of a training from a bench: hours, GPU-hours, kWh, cost."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from ..config.trainer_arguments import duration_s
from ..errors import LabError, nearest
from ..machine.gpu import gpus
from ..machine.text_formats import HOUR_S, format_duration
from .result import (
    PEAKS,
    BenchResult,
    Forecast,
    Measurement,
    peak_tflops,
    read_bench,
    resolved_settings,
)

READ = ("trainer", "job", "budget")  # sections that a forecast reads


def forecast_from_bench(
    config: DictConfig | dict[str, Any], tree: str | None, n_devices: int | None = None
) -> Forecast | None:
    """The forecast of these settings; None when this git tree was not benched with them.

    Args:
        config: as composed, before `auto` is resolved.
        n_devices: see `forecast_training`.
    """
    settings = resolved_settings(config)
    bench = read_bench(settings, tree) if tree else None
    if bench is None:
        return None
    read = {name: settings[name] for name in READ if name in settings}
    return forecast_training(bench, DictConfig(read), n_devices)


def forecast_training(
    bench: BenchResult,
    config: DictConfig,
    n_devices: int | None = None,
    gpu: str | None = None,
) -> Forecast | None:
    """Time, energy and cost of a training; None when its number of steps is not known.

    Args:
        config: as composed; it says how long to train, and on how many devices.
        n_devices: processes with a device each; None: as `job` and `trainer.devices` say.
        gpu: another GPU than the bench's. The ratio of the peaks scales the time, which is rough.
    """
    measured = bench.measured
    n_devices = n_devices or n_devices_of(config, measured.world_size)
    step_s = step_seconds(bench, n_devices, gpu)
    length = length_of_training(measured, config, step_s, n_devices)
    if length is None:
        return None
    seconds = training_seconds(measured, config, length, step_s, n_devices)
    device_hours = seconds / HOUR_S * n_devices
    gpu_hours = device_hours if measured.accelerator in ("gpu", "cuda") else None
    kwh = None
    if measured.power_w and not gpu:
        kwh = device_hours * measured.power_w / 1000
    extrapolated = n_devices > measured.world_size and str(n_devices) not in (bench.scaling or {})
    return Forecast(
        seconds=seconds,
        n_steps=length.n_steps,
        n_devices=n_devices,
        device=gpu or measured.device,
        rough=bool(gpu) or extrapolated,
        gpu_hours=gpu_hours,
        kwh=kwh,
        cost=cost_of(gpu_hours, kwh, config.budget),
        currency=config.budget.currency,
    )


def n_devices_of(config: DictConfig, n_measured: int) -> int:
    """Devices of the job, else those of the Trainer, else as many as the bench had."""
    job = config.get("job") or {}
    if job.get("total_gpus"):
        return int(job["total_gpus"])
    if job.get("gpus"):
        return int(job.get("nodes") or 1) * int(job["gpus"])
    if str(config.trainer.devices) in ("auto", "-1"):
        return n_measured
    return int(config.trainer.devices)


@dataclass(frozen=True)
class Length:
    n_steps: int
    n_epochs: int
    n_validations: int


def length_of_training(
    measured: Measurement, config: DictConfig, step_s: float, n_devices: int
) -> Length | None:
    """Steps, epochs and validations until max_epochs, max_steps or max_time, whichever comes first.

    None when none of them gives a number of steps.
    """
    trainer = config.trainer
    steps_per_epoch = None
    if measured.steps_per_epoch:
        n_steps = measured.steps_per_epoch * measured.world_size
        steps_per_epoch = math.ceil(n_steps / n_devices)
    ends = []
    if steps_per_epoch and (trainer.max_epochs or 0) > 0:
        ends.append(trainer.max_epochs * steps_per_epoch)
    if trainer.max_steps > 0:
        ends.append(trainer.max_steps)
    max_s = duration_s(trainer.get("max_time"))
    if max_s is not None:
        ends.append(max(1, int(max_s / step_s)))
    if not ends:
        return None
    n_steps = min(ends)
    n_epochs = math.ceil(n_steps / steps_per_epoch) if steps_per_epoch else 1
    every_n_steps = steps_per_validation(trainer, steps_per_epoch)
    if every_n_steps:
        return Length(n_steps, n_epochs, n_validations=int(n_steps / every_n_steps))
    return Length(
        n_steps, n_epochs, n_validations=n_epochs // (trainer.check_val_every_n_epoch or 1)
    )


def steps_per_validation(trainer: DictConfig, steps_per_epoch: int | None) -> float | None:
    """Optimizer steps between two validations; None: an epoch, or a time.

    Args:
        trainer: the section.
    """
    if every_steps := trainer.get("val_every_steps"):
        return every_steps
    interval = trainer.get("val_check_interval")
    every_n_epochs = trainer.check_val_every_n_epoch or 1
    if isinstance(interval, int) and interval > 0:
        return interval / trainer.accumulate_grad_batches * every_n_epochs  # it counts batches
    if isinstance(interval, float) and interval > 0 and steps_per_epoch:
        return interval * steps_per_epoch * every_n_epochs
    return None


def step_seconds(bench: BenchResult, n_devices: int, gpu: str | None) -> float:
    """Seconds of one step on `n_devices`. On another `gpu` loading takes as long as it did."""
    measured = bench.measured
    scaling = bench.scaling or {}
    step_s = measured.times_s.step
    step_s *= efficiency(scaling, measured.world_size) / efficiency(scaling, n_devices)
    if gpu is None:
        return step_s
    load = measured.shares["load"]
    of_bench = (measured.precision, measured.matmul_precision)
    ratio = peak_of(measured.device, *of_bench) / peak_of(gpu, *of_bench)
    return step_s * (load + (1 - load) * ratio)


def efficiency(scaling: dict[str, float], n_devices: int) -> float:
    """Share of perfect scaling on `n_devices`, from 0 to 1.

    Between and beyond the numbers that were measured, each doubling loses the same share.

    Args:
        scaling: samples/s by number of devices; empty when nothing was measured.
    """
    smaller = [int(n) for n in scaling if 1 < int(n) <= n_devices]
    if "1" not in scaling or not smaller:
        return 1.0
    n_measured = max(smaller)
    share = scaling[str(n_measured)] / n_measured / scaling["1"]
    return share ** (math.log(n_devices) / math.log(n_measured))


def peak_of(gpu: str, precision: str = "32-true", matmul_precision: str = "high") -> float:
    """Peak TFLOP/s of `gpu`, as `peak_tflops`."""
    peak = peak_tflops(gpu, precision, matmul_precision)
    if peak is None:
        raise LabError(
            f"the peak of {gpu} is not known{nearest(gpu, PEAKS)}. Known are: {', '.join(PEAKS)}"
        )
    return peak


def require_comparable_device(accelerator: str) -> None:
    """Makes sure that a bench on this machine can be carried over to another GPU.

    Args:
        accelerator: `trainer.accelerator`, also "auto".
    """
    devices = gpus() if accelerator in ("auto", "cuda", "gpu") else []
    if not devices:
        raise LabError(
            "a forecast for another GPU needs a bench on a GPU, but this one would run on the CPU.\n"
            "Without the name of a GPU (--forecast=8) it is for 8 devices like this one"
        )
    peak_of(devices[0].name)


def training_seconds(
    measured: Measurement, config: DictConfig, length: Length, step_s: float, n_devices: int
) -> float:
    """Seconds from the command to the end of the training; `max_time` ends the fit before."""
    times_s = measured.times_s
    evaluation_share = measured.world_size / n_devices
    fit_s = length.n_steps * step_s
    fit_s += length.n_epochs * (times_s.epoch + times_s.checkpoint)
    fit_s += length.n_validations * times_s.val * evaluation_share
    max_s = duration_s(config.trainer.get("max_time"))
    if max_s is not None:
        fit_s = min(fit_s, max_s)
    seconds = times_s.startup + fit_s
    if config.trainer.test_after_fit:
        seconds += times_s.test * evaluation_share
    return seconds


def cost_of(gpu_hours: float | None, kwh: float | None, budget: DictConfig) -> float | None:
    """The sum of what has an amount and a price; None when nothing has both."""
    costs = []
    if gpu_hours is not None and budget.price_per_gpu_hour is not None:
        costs.append(gpu_hours * budget.price_per_gpu_hour)
    if kwh is not None and budget.price_per_kwh is not None:
        costs.append(kwh * budget.price_per_kwh)
    return sum(costs) if costs else None


def format_forecast(forecast: Forecast) -> str:
    """One line: time, devices, steps, and what is known of GPU-hours, energy and cost."""
    rough = " (rough)" if forecast.rough else ""
    texts = [
        f"{format_duration(forecast.seconds)} on {forecast.n_devices} x {forecast.device}{rough}",
        f"{forecast.n_steps:,} steps",
    ]
    if forecast.gpu_hours is not None:
        texts.append(f"{forecast.gpu_hours:.3g} GPU-hours")
    if forecast.kwh is not None:
        texts.append(f"{forecast.kwh:.3g} kWh")
    if forecast.cost is not None:
        texts.append(f"{forecast.cost:.2f} {forecast.currency or '(budget.currency)'}")
    return ", ".join(texts)


def print_forecast(
    configs: Sequence[DictConfig | dict[str, Any]],
    tree: str | None,
    limit_s: float,
    n_devices: int | None = None,
) -> list[Forecast | None]:
    """Prints what the runs of these settings will take, as far as this code was benched with them.

    Args:
        configs: one for each run, as composed.
        tree: git tree of their code.
        limit_s: time limit of their jobs, in seconds.
        n_devices: GPUs of each job, which the site may have chosen; None: as the settings say.

    Returns:
        The forecast of each run; None for what was not benched.
    """
    forecasts = [forecast_from_bench(config, tree, n_devices) for config in configs]
    benched = [forecast for forecast in forecasts if forecast]
    if not benched:
        return forecasts
    longest = max(benched, key=lambda forecast: forecast.seconds)
    line = f"forecast: {format_forecast(longest)}"
    if len(benched) > 1:
        gpu_hours = sum(forecast.gpu_hours or 0 for forecast in benched)
        line += f" (the longest of {len(benched)} runs; all: {gpu_hours:.3g} GPU-hours)"
    print(line, file=sys.stderr)
    if longest.seconds > limit_s:
        print(f"that is longer than job.time: {format_duration(limit_s)}", file=sys.stderr)
    return forecasts
