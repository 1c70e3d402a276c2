# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Batches per optimizer step for a global batch size."""

from __future__ import annotations

from omegaconf import DictConfig

from ..errors import LabError


def batches_per_step(config: DictConfig, n_processes: int) -> int:
    """Batches per optimizer step that make batch.global samples of all processes.

    Raises:
        LabError: no whole number of batches does, or other settings say otherwise.
    """
    wanted, n_samples = config.batch["global"], config.data.get("batch_size")
    if n_samples is None or config.trainer.accumulate_grad_batches != 1 or config.batch.scale_lr:
        raise LabError(
            "batch.global needs data.batch_size, and decides trainer.accumulate_grad_batches (leave it at 1); "
            "batch.scale_lr has no meaning beside it, as more processes then make no larger batch"
        )
    at_once = n_samples * n_processes
    if not isinstance(wanted, int) or wanted < 1 or wanted % at_once:
        how = f"data.batch_size={n_samples} times {n_processes} processes: {at_once}, {2 * at_once}, {3 * at_once} ..."
        raise LabError(f"batch.global={wanted} is no multiple of {how}")
    return wanted // at_once
