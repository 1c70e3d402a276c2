"""Batches per optimizer step for a global batch size."""

from __future__ import annotations

from omegaconf import DictConfig

from ..errors import LabError


def batches_per_step(config: DictConfig, n_processes: int) -> int:
    """Batches per optimizer step with which all processes together see batch.global samples.

    Raises:
        LabError: no whole number of batches does, or another setting says something else.
    """
    global_batch = config.batch["global"]
    samples_per_batch = config.data.get("batch_size")
    decided_otherwise = config.trainer.accumulate_grad_batches != 1 or config.batch.scale_lr
    if samples_per_batch is None or decided_otherwise:
        raise LabError(
            f"batch.global={global_batch} needs data.batch_size, "
            "and sets trainer.accumulate_grad_batches itself: leave that at 1. "
            "batch.scale_lr has no meaning with it: more processes do not make a larger batch."
        )
    smallest = samples_per_batch * n_processes
    if not isinstance(global_batch, int) or global_batch < 1 or global_batch % smallest:
        raise LabError(
            f"batch.global={global_batch} is no multiple of data.batch_size={samples_per_batch} "
            f"times {n_processes} processes; take one of {smallest}, {2 * smallest}, {3 * smallest} ..."
        )
    return global_batch // smallest
