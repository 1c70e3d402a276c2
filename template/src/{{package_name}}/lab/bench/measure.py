# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Measures some steps of a training with the chronometer."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from torch import nn
from torch.distributed.tensor import DTensor

from ..errors import LabError
from ..machine.ranks import discover
from ..training.accelerate import accelerate
from ..training.build import build_callbacks, build_data, build_task
from ..training.checkpoint import AtomicCheckpointIO
from ..training.ddp import cluster_environment, strategy_for
from ..training.means import LogMeans, batch_size_of
from ..training.profilers import build_profile
from ..training.settings import resolve_auto, scale_to_processes
from ..training.trainer import plain_trainer
from .chronometer import EVALUATED, Chronometer
from .forecast import OutOfMemory

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WEIGHTED = (nn.Linear, nn.Embedding, *CONVOLUTIONS, *TRANSPOSED)


class MemoryAfterBatch(L.Callback):
    """Counts samples, and takes out schedules that wait for a validation; with `lr`, sets that of each step, keeps losses."""

    def __init__(self, lr: list[float] | None = None) -> None:
        self.lr, self.losses, self.samples = lr, [], []

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        schedules = trainer.strategy.lr_scheduler_configs
        trainer.strategy.lr_scheduler_configs = [
            one for one in schedules if not one.reduce_on_plateau
        ]

    def on_train_batch_start(
        self, trainer: L.Trainer, task: L.LightningModule, batch: Any, *_: Any
    ) -> None:
        self.samples.append(batch_size_of(batch))
        for optimizer in trainer.optimizers if self.lr else []:
            for group in optimizer.param_groups:
                group["lr"] = self.lr[len(self.losses)]

    def on_train_batch_end(
        self, trainer: L.Trainer, task: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        if self.lr:
            self.losses.append(outputs["loss"].detach())
            trainer.should_stop = len(self.losses) == len(self.lr)


def build_bench(
    config: DictConfig, directory: str, callbacks: list[L.Callback]
) -> tuple[dict, L.Trainer, Any, Any]:
    """The parts of a training as train.py builds them, without logger and checkpoints, and without an end."""
    settled = resolve_auto(config, earlier={}) | scale_to_processes(config)
    if config.profile.get("kind") == "simple":
        raise LabError(
            "profile=simple would take the place of the chronometer of lab bench; leave it out"
        )
    callbacks = [*build_profile(config, Path(directory).parent / "profile"), *callbacks]
    config.trainer.update(max_epochs=10**6, max_steps=-1, check_val_every_n_epoch=10**6)
    data, task = build_data(config), accelerate(build_task(config), config)
    ranks, how = discover(), {"enable_checkpointing": False, "default_root_dir": directory}
    how |= {"log_every_n_steps": config.log.every_n_steps, "num_nodes": ranks.n_nodes}
    how["strategy"] = strategy_for(config)
    how["plugins"] = [AtomicCheckpointIO(), cluster_environment(ranks)]
    return (
        settled,
        plain_trainer(config, data, task, callbacks=callbacks, **how),
        task,
        data,
    )


def measure(
    config: DictConfig, directory: Path, n_steps: int, started_s: float
) -> dict[str, Any] | None:
    """Trains `n_steps` optimizer steps after WARMUP and evaluates a few batches; nothing of it stays.

    Args:
        config: composed configuration; it is settled and changed here.
        directory: where a checkpoint is written, timed and removed.
        started_s: time.perf_counter() when the command had read its settings.

    Returns: what bench.json holds of the measurement; None on other ranks than the first.
    """
    limits, watch = (
        {stage: config.trainer[f"limit_{stage}_batches"] for stage in ("val", "test")},
        MemoryAfterBatch(),
    )
    own = [callback for callback in build_callbacks(config) if not hasattr(callback, "monitor")]
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory) as temporary:
        settled, trainer, task, data = build_bench(config, temporary, [LogMeans(), watch, *own])
        accumulate = trainer.accumulate_grad_batches
        trainer.profiler = clock = Chronometer(trainer, n_steps, accumulate)
        try:
            trainer.fit(task, datamodule=data)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(
                error
            ):
                raise
            raise OutOfMemory(
                f"out of memory with {max(watch.samples, default=0)} samples: lower it"
            ) from error
        bytes_kept, before_s = peak_memory(task, trainer, clock), time.perf_counter()
        trainer.save_checkpoint(Path(temporary) / "last.ckpt")
        times_s = {
            "checkpoint": time.perf_counter() - before_s,
            "startup": clock.marks[0].host_s - started_s,
        }
        times_s |= {
            stage: measure_evaluation(trainer, task, data, stage, limits[stage]) for stage in limits
        }
    if not trainer.is_global_zero:
        return None
    found, n_batches = (
        clock.figures(sum(watch.samples[clock.first : clock.last])),
        trainer.num_training_batches,
    )
    layers = [
        (name, layer.weight.shape[:2])
        for name, layer in task.named_modules()
        if isinstance(layer, WEIGHTED)
    ]
    return settled | found | {
        "times_s": times_s | found["times_s"],
        "world_size": trainer.world_size,
        "samples_per_step": max(watch.samples) * accumulate * trainer.world_size,
        "steps_per_epoch": None if math.isinf(n_batches) else -(-n_batches // accumulate),
        "flops_per_step": clock.flops.get_total_flops() * accumulate,
        "n_parameters": sum(p.numel() for p in task.parameters()),
        "uneven": [f"{name} {tuple(shape)}" for name, shape in layers if any(n > 4 and n % 8 for n in shape)],
        "memory_bytes": bytes_kept,
    }  # fmt: skip


def measure_evaluation(
    trainer: L.Trainer, task: L.LightningModule, data: Any, stage: str, limit: float
) -> float:
    """Seconds that all batches of the val or test split take, from the first EVALUATED of them."""
    setattr(trainer, f"limit_{stage}_batches", EVALUATED)
    try:
        (trainer.validate if stage == "val" else trainer.test)(task, datamodule=data, verbose=False)
    except MisconfigurationException:  # there is none
        return 0.0
    loaders = getattr(trainer, f"{stage}_dataloaders")
    n_batches = sum(len(loader) for loader in (loaders if isinstance(loaders, list) else [loaders]))
    n_batches = n_batches * limit if isinstance(limit, float) else min(limit, n_batches)
    return trainer.profiler.evaluation_s(stage) * n_batches / max(1, min(EVALUATED, n_batches))


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of a tensor, which FSDP2 spreads over the processes."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def peak_memory(
    task: L.LightningModule, trainer: L.Trainer, clock: Chronometer
) -> dict[str, int | None]:
    """Bytes of each part on one device; `peak` is what torch's allocator held during the measured steps."""
    states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
    tensors = {
        "weights": [*task.parameters(), *task.buffers()],
        "gradients": [p.grad for p in task.parameters() if p.grad is not None],
        "optimizer": [
            value for state in states for value in state.values() if isinstance(value, torch.Tensor)
        ],
    }
    kept = {
        name: sum(local_part(t).nbytes for t in group)
        for name, group in tensors.items()
    }
    on_cuda = (
        (torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()[1])
        if clock.cuda
        else (None, None)
    )
    return kept | {
        "activations": sum(clock.saved.values()),
        "peak": on_cuda[0],
        "device": on_cuda[1],
    }
