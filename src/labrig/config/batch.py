"""Batches per optimizer step for a global batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LabError


def n_readers_of(config: Mapping[Any, Any], n_processes: int) -> int:
    """How many processes read samples of their own: those that share each layer read the same."""
    return max(1, n_processes // config["speed"].get("tensor_parallel", 1))


def require_whole_groups(config: Mapping[Any, Any], n_processes: int) -> None:
    """Refuses processes that cannot be divided into groups of `speed.tensor_parallel`."""
    n = config["speed"].get("tensor_parallel", 1)
    if n_processes % n:
        raise LabError(
            f"speed.tensor_parallel={n} needs a multiple of {n} processes, but there are "
            f"{n_processes}: trainer.devices={n}, or job.gpus={n} in a job"
        )


def batches_per_step(config: Mapping[Any, Any], n_processes: int) -> int:
    """Batches per optimizer step with which all processes together see batch.global samples."""
    batch, trainer = config["batch"], config["trainer"]
    global_batch = batch["global"]
    samples_per_batch = config["data"].get("batch_size")
    decided_otherwise = trainer["accumulate_grad_batches"] != 1 or batch["scale_lr"]
    if samples_per_batch is None or decided_otherwise:
        raise LabError(
            f"batch.global={global_batch} needs data.batch_size, "
            "and sets trainer.accumulate_grad_batches itself: leave that at 1. "
            "batch.scale_lr has no meaning with it: more processes do not make a larger batch."
        )
    n_processes = n_readers_of(config, n_processes)
    smallest = samples_per_batch * n_processes
    if not isinstance(global_batch, int) or global_batch < 1 or global_batch % smallest:
        raise LabError(
            f"batch.global={global_batch} is no multiple of data.batch_size={samples_per_batch} "
            f"times {n_processes} processes; take one of {smallest}, {2 * smallest}, {3 * smallest} ..."
        )
    return global_batch // smallest
