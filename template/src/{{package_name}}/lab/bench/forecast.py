# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Forecast of a training from a bench: hours, GPU-hours, kWh, cost."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import Failed, LabError, Refused, nearest
from ..record.atomic import read_json
from .verdict import LENGTH

SCHEMA = 1
PEAKS = {  # dense TFLOP/s of one GPU (float32, TF32, half precision with tensor cores), by NVIDIA's data sheets
    "V100": (15.7, 15.7, 125), "T4": (8.1, 8.1, 65), "A100": (19.5, 156, 312), "A40": (37.4, 74.8, 150),
    "L4": (30.3, 60, 121), "L40S": (91.6, 183, 362), "RTX 3090": (35.6, 35.6, 71), "RTX 4090": (82.6, 82.6, 165),
    "H100 PCIe": (51, 378, 756), "H100": (67, 495, 989), "GH200": (67, 495, 989), "H200": (67, 495, 989),
    "B200": (75, 1100, 2250),
}  # fmt: skip
NO_MATTER = (  # to the time of a step
    "seed", "log", "checkpoint", "record", "paths", "job", "site", "budget", "callbacks", "logger", "profile", "schedule",
)  # fmt: skip


class OutOfMemory(Failed):
    """A bench that does not fit into the memory of its device."""


def bench_path(config: DictConfig, tree: str | None) -> Path:
    """Where the bench of these settings with the code of this git tree lies: runs/<trial>/bench-<tree>-<settings>.json.
    What changes only how long one trains, on how many devices, or where things are kept, makes no difference."""
    plain = OmegaConf.to_container(config, resolve=True)
    taken = {key: value for key, value in plain.items() if key not in NO_MATTER}
    taken["trainer"] = {key: value for key, value in plain["trainer"].items() if key not in LENGTH}
    # nor do the numbers of the optimizer; its switches do
    taken["optimizer"] = {
        key: one for key, one in plain["optimizer"].items() if type(one) not in (int, float)
    }
    settings = hashlib.sha256(json.dumps(taken, sort_keys=True, default=str).encode()).hexdigest()[
        :6
    ]
    name = f"bench-{(tree or 'unrecorded')[:12]}-{settings}.json"
    return Path(config.paths.runs, config.trial.replace("/", "+"), name)


def forecast_from_bench(config: DictConfig, tree: str | None) -> dict | None:
    """The forecast of these settings (before `auto` is settled in them), when the code of this git tree was benched so."""
    bench = read_json(bench_path(config, tree)) if tree else None
    return forecast(bench, config) if bench and bench["schema"] == SCHEMA else None


def peak_tflops(gpu: str, precision: str, matmul_precision: str = "high") -> float | None:
    """The peak of a GPU, by its name as CUDA gives it, for a training in this precision; None when it is not in the table."""
    name = max((name for name in PEAKS if name.lower() in gpu.lower()), key=len, default=None)
    column = 2 if "16" in precision else 0 if matmul_precision == "highest" else 1
    return PEAKS[name][column] if name else None


def efficiency(scaling: dict[str, float], n_devices: int) -> float:
    """Share of perfect scaling on `n_devices`: from samples/s by number of devices; between and beyond those measured,
    the same share is lost with each doubling."""
    alone = scaling.get("1")
    measured = (
        max((int(n) for n in scaling if 1 < int(n) <= n_devices), default=None) if alone else None
    )
    if measured is None or n_devices == 1:
        return 1.0
    return (scaling[str(measured)] / measured / alone) ** (math.log(n_devices) / math.log(measured))


def forecast(
    bench: dict, config: DictConfig, n_devices: int | None = None, gpu: str | None = None
) -> dict | None:
    """Time, energy and cost of training as `config` says; None when the length of an epoch or the end is not known.

    Args:
        n_devices: processes with a device each; None: as `job` and `trainer.devices` say.
        gpu: another GPU than the bench's, whose time is scaled by the ratio of the peaks: rough.
    """
    times_s, trainer, world_size = bench["times_s"], config.trainer, bench["world_size"]
    n_devices = n_devices or devices(config, world_size)
    n_steps = bench["steps_per_epoch"] and math.ceil(
        bench["steps_per_epoch"] * world_size / n_devices
    )
    ends = [trainer.max_epochs * n_steps] if n_steps and trainer.max_epochs > 0 else []
    ends += [trainer.max_steps] if trainer.max_steps > 0 else []
    if not ends:
        return None
    n_epochs = math.ceil(min(ends) / n_steps) if n_steps else 1
    scaling = bench.get("scaling") or {}
    step_s = times_s["step"] * efficiency(scaling, world_size) / efficiency(scaling, n_devices)
    if gpu:
        peaks = [
            peak_tflops(name, bench["precision"], bench["matmul_precision"])
            for name in (bench["device"], gpu)
        ]
        if None in peaks:
            unknown = gpu if peaks[0] else bench["device"]
            raise LabError(
                f"no peak is known of {unknown}{nearest(unknown, PEAKS)}, only of: {', '.join(PEAKS)}"
            )
        step_s *= bench["shares"]["load"] + (1 - bench["shares"]["load"]) * peaks[0] / peaks[1]
    seconds = (
        times_s["startup"]
        + min(ends) * step_s
        + n_epochs * (times_s["epoch"] + times_s["checkpoint"])
    )
    seconds += n_epochs // trainer.check_val_every_n_epoch * times_s["val"] * world_size / n_devices
    seconds += trainer.test_after_fit * times_s["test"] * world_size / n_devices
    hours = seconds / 3600 * n_devices
    gpu_hours = hours if bench["accelerator"] in ("gpu", "cuda") else None
    kwh = hours * bench["power_w"] / 1000 if bench["power_w"] and not gpu else None
    prices = ((gpu_hours, config.budget.price_per_gpu_hour), (kwh, config.budget.price_per_kwh))
    costs = [amount * price for amount, price in prices if None not in (amount, price)]
    rough = bool(gpu) or (n_devices > world_size and str(n_devices) not in scaling)
    where = {"n_devices": n_devices, "device": gpu or bench["device"], "rough": rough}
    amounts = {"gpu_hours": gpu_hours, "kwh": kwh, "cost": sum(costs) if costs else None}
    return (
        {"seconds": seconds, "n_steps": min(ends)}
        | where
        | amounts
        | {"currency": config.budget.currency}
    )


def devices(config: DictConfig, measured: int) -> int:
    """How many devices the settings ask for: of the job, else of the Trainer, else as many as the bench had."""
    job = config.get("job") or {}
    if job.get("gpus"):
        return int(job.get("nodes") or 1) * int(job["gpus"])
    return measured if config.trainer.devices == "auto" else int(config.trainer.devices)


def format_forecast(found: dict[str, Any]) -> str:
    """One line of a forecast."""
    where = f"{found['n_devices']} x {found['device']}" + (" (rough)" if found["rough"] else "")
    words = [f"{timedelta(seconds=round(found['seconds']))} on {where}, {found['n_steps']:,} steps"]
    words += [f"{found['gpu_hours']:.3g} GPU-hours"] if found["gpu_hours"] is not None else []
    words += [f"{found['kwh']:.3g} kWh"] if found["kwh"] is not None else []
    words += (
        [f"{found['cost']:.2f} {found['currency'] or '(budget.currency)'}"]
        if found["cost"] is not None
        else []
    )
    return ", ".join(words)


def check_budget(
    configs: list[DictConfig], tree: str | None, limit_s: float, yes: bool = False
) -> None:
    """Says what the runs of these settings will take, as far as this code was benched with them.

    Args:
        limit_s: time limit of their jobs, in seconds.

    Raises:
        Refused: more than budget.gpu_hours in all, unless `yes`.
    """
    found = [one for one in (forecast_from_bench(config, tree) for config in configs) if one]
    if not found:
        return
    longest, asked = (
        max(found, key=lambda one: one["seconds"]),
        sum(one["gpu_hours"] or 0 for one in found),
    )
    several = (
        f" (the longest of {len(found)} runs; all: {asked:.3g} GPU-hours)" if len(found) > 1 else ""
    )
    print(f"forecast: {format_forecast(longest)}{several}", file=sys.stderr)
    if longest["seconds"] > limit_s:
        print(f"that is longer than job.time: {timedelta(seconds=round(limit_s))}", file=sys.stderr)
    budget = configs[0].budget.gpu_hours
    if budget is not None and asked > budget and not yes:
        raise Refused(
            f"this takes {asked:.3g} GPU-hours; budget.gpu_hours is {budget:g}. If you mean it, add: --yes"
        )
