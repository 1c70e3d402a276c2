# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What the figures of a bench mean: a verdict, and what a whole training will take. Without torch."""

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
from ..record.files import read_json

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
LENGTH = ("max_epochs", "max_steps", "check_val_every_n_epoch", "devices", "test_after_fit")


class OutOfMemory(Failed):
    """A bench that does not fit into the memory of its device."""


def bench_path(config: DictConfig, tree: str | None) -> Path:
    """Where the bench of these settings with the code of this git tree lies: runs/<trial>/bench-<tree>-<settings>.json.
    What changes only how long one trains, on how many devices, or where things are kept, makes no difference."""
    plain = OmegaConf.to_container(config, resolve=True)
    taken = {key: value for key, value in plain.items() if key not in NO_MATTER}
    taken["trainer"] = {key: value for key, value in plain["trainer"].items() if key not in LENGTH}
    # nor do the numbers of the optimizer; its switches do
    taken["optimizer"] = {key: one for key, one in plain["optimizer"].items() if type(one) not in (int, float)}
    settings = hashlib.sha256(json.dumps(taken, sort_keys=True, default=str).encode()).hexdigest()[:6]
    name = f"bench-{(tree or 'unrecorded')[:12]}-{settings}.json"
    return Path(config.paths.runs, config.trial.replace("/", "+"), name)


def foreseen(config: DictConfig, tree: str | None) -> dict | None:
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
    measured = max((int(n) for n in scaling if 1 < int(n) <= n_devices), default=None) if alone else None
    if measured is None or n_devices == 1:
        return 1.0
    return (scaling[str(measured)] / measured / alone) ** (math.log(n_devices) / math.log(measured))


def forecast(bench: dict, config: DictConfig, n_devices: int | None = None, gpu: str | None = None) -> dict | None:
    """Time, energy and cost of training as `config` says; None when the length of an epoch or the end is not known.

    Args:
        n_devices: processes with a device each; None: as `job` and `trainer.devices` say.
        gpu: another GPU than the bench's, whose time is scaled by the ratio of the peaks: rough.
    """
    times_s, trainer, world_size = bench["times_s"], config.trainer, bench["world_size"]
    n_devices = n_devices or devices(config, world_size)
    n_steps = bench["steps_per_epoch"] and math.ceil(bench["steps_per_epoch"] * world_size / n_devices)
    ends = [trainer.max_epochs * n_steps] if n_steps and trainer.max_epochs > 0 else []
    ends += [trainer.max_steps] if trainer.max_steps > 0 else []
    if not ends:
        return None
    n_epochs = math.ceil(min(ends) / n_steps) if n_steps else 1
    scaling = bench.get("scaling") or {}
    step_s = times_s["step"] * efficiency(scaling, world_size) / efficiency(scaling, n_devices)
    if gpu:
        peaks = [peak_tflops(name, bench["precision"], bench["matmul_precision"]) for name in (bench["device"], gpu)]
        if None in peaks:
            unknown = gpu if peaks[0] else bench["device"]
            raise LabError(f"no peak is known of {unknown}{nearest(unknown, PEAKS)}, only of: {', '.join(PEAKS)}")
        step_s *= bench["shares"]["load"] + (1 - bench["shares"]["load"]) * peaks[0] / peaks[1]
    seconds = times_s["startup"] + min(ends) * step_s + n_epochs * (times_s["epoch"] + times_s["checkpoint"])
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
    return {"seconds": seconds, "n_steps": min(ends)} | where | amounts | {"currency": config.budget.currency}


def devices(config: DictConfig, measured: int) -> int:
    """How many devices the settings ask for: of the job, else of the Trainer, else as many as the bench had."""
    job = config.get("job") or {}
    if job.get("gpus"):
        return int(job.get("nodes") or 1) * int(job["gpus"])
    return measured if config.trainer.devices == "auto" else int(config.trainer.devices)


def told(found: dict[str, Any]) -> str:
    """One line of a forecast."""
    where = f"{found['n_devices']} x {found['device']}" + (" (rough)" if found["rough"] else "")
    words = [f"{timedelta(seconds=round(found['seconds']))} on {where}, {found['n_steps']:,} steps"]
    words += [f"{found['gpu_hours']:.3g} GPU-hours"] if found["gpu_hours"] is not None else []
    words += [f"{found['kwh']:.3g} kWh"] if found["kwh"] is not None else []
    words += [f"{found['cost']:.2f} {found['currency'] or '(budget.currency)'}"] if found["cost"] is not None else []
    return ", ".join(words)


def announce(configs: list[DictConfig], tree: str | None, limit_s: float, yes: bool = False) -> None:
    """Says what the runs of these settings will take, as far as this code was benched with them.

    Args:
        limit_s: time limit of their jobs, in seconds.

    Raises:
        Refused: more than budget.gpu_hours in all, unless `yes`.
    """
    found = [one for one in (foreseen(config, tree) for config in configs) if one]
    if not found:
        return
    longest, asked = max(found, key=lambda one: one["seconds"]), sum(one["gpu_hours"] or 0 for one in found)
    several = f" (the longest of {len(found)} runs; all: {asked:.3g} GPU-hours)" if len(found) > 1 else ""
    print(f"forecast: {told(longest)}{several}", file=sys.stderr)
    if longest["seconds"] > limit_s:
        print(f"that is longer than job.time: {timedelta(seconds=round(limit_s))}", file=sys.stderr)
    budget = configs[0].budget.gpu_hours
    if budget is not None and asked > budget and not yes:
        raise Refused(f"this takes {asked:.3g} GPU-hours; budget.gpu_hours is {budget:g}. If you mean it, add: --yes")


def verdict(bench: dict[str, Any], config: DictConfig) -> list[dict[str, str]]:
    """What the figures mean, each with the settings that would change it."""
    share, step_s, memory = bench["shares"], bench["step_s"], bench["memory_bytes"]
    gpu, uneven, unsteady = bench["device"] != "cpu", bench["uneven"], step_s["spread"] / step_s["median"]
    waits_for_python = gpu and bench["launch_s"] > 0.8 * (1 - share["load"]) * step_s["median"]
    fullness = memory["peak"] / memory["device"] if gpu else 0
    bounds = [  # the first that holds
        (share["load"] >= 0.2, "data-bound", f"{share['load']:.0%} of a step waits for data (disks: lab data bench)",
         ("data.num_workers", "data.stage")),
        (waits_for_python and (bench["peak_share"] or 0) < 0.3, "launch-bound",
         "the GPU waits for Python: for many small kernels, or at an .item()", ("data.batch_size", "speed.compile")),
        (share["other"] >= 0.25, "overhead-bound", f"{share['other']:.0%} of a step is neither data nor model",
         ("data.batch_size", "log.every_n_steps", "callbacks")),
        (True, "compute-bound", "the step is spent in the model",
         ("trainer.devices", "speed.compile", *(["trainer.precision", "speed.channels_last"] if gpu else []))),
    ]  # fmt: skip
    further = [
        (fullness > 0.9, "memory nearly full", f"{fullness:.0%} of the device's",
         ("data.batch_size", "trainer.accumulate_grad_batches", "speed.checkpoint_activations", "speed.fsdp")),
        (gpu and "32" in bench["precision"], "precision not used", "tensor cores are fastest in half precision",
         ("trainer.precision",)),
        (gpu and uneven, "dimensions not multiples of 8", f"tensor cores idle in {', '.join(uneven[:3])}", ("model",)),
        (unsteady > 0.3, "unsteady", f"the middle half of the steps spreads over {unsteady:.0%}; is the machine quiet?", ()),
    ]  # fmt: skip
    found = [next(rule for rule in bounds if rule[0]), *[rule for rule in further if rule[0]]]
    return [{"name": name, "why": why, "try": changeable(config, keys)} for _, name, why, keys in found]


def changeable(config: DictConfig, keys: tuple[str, ...]) -> str:
    """The settings that exist, with the value that they have."""
    values = {key: OmegaConf.select(config, key, default="") for key in keys}
    return ", ".join(key if isinstance(now, DictConfig) else f"{key} (now {now})" for key, now in values.items())
