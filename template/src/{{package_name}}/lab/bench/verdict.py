# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What limits a step, and which setting may help."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

LENGTH = ("max_epochs", "max_steps", "check_val_every_n_epoch", "devices", "test_after_fit")


def verdict(bench: dict[str, Any], config: DictConfig) -> list[dict[str, str]]:
    """What the figures mean, each with the settings that would change it."""
    share, step_s, memory = bench["shares"], bench["step_s"], bench["memory_bytes"]
    gpu, uneven, unsteady = (
        bench["device"] != "cpu",
        bench["uneven"],
        step_s["spread"] / step_s["median"],
    )
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
    return [
        {"name": name, "why": why, "try": changeable(config, keys)} for _, name, why, keys in found
    ]


def changeable(config: DictConfig, keys: tuple[str, ...]) -> str:
    """The settings that exist, with the value that they have."""
    values = {key: OmegaConf.select(config, key, default="") for key in keys}
    return ", ".join(
        key if isinstance(now, DictConfig) else f"{key} (now {now})" for key, now in values.items()
    )
