# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The Trainer: Lightning's, with our checkpoints, metrics, signals and progress, and nothing else."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.strategies import DDPStrategy, Strategy
from omegaconf import DictConfig

from ..hdf5 import H5DataModule
from ..machine.ranks import Ranks
from ..record.run import Run
from .checkpoint import AtomicCheckpointIO, Checkpoints
from .environment import cluster_environment
from .lean import NoProfiler, make_lean
from .loggers import build_loggers
from .metrics import BuffersAgree, LogMeans
from .parts import build_callbacks
from .progress import Progress
from .signals import PreemptionCallback

PASSED_ON = (
    "accelerator",
    "devices",
    "precision",
    "max_epochs",
    "max_steps",
    "accumulate_grad_batches",
    "gradient_clip_val",
    "gradient_clip_algorithm",
    "check_val_every_n_epoch",
    "limit_train_batches",
    "limit_val_batches",
    "limit_test_batches",
)  # keys of `trainer` that Lightning's Trainer takes under the same name


def build_trainer(
    config: DictConfig, run: Run, attempt: int, data: L.LightningDataModule, task: L.LightningModule, ranks: Ranks
) -> L.Trainer:
    """A Trainer for one attempt of a run.

    Args:
        config: settled configuration (see settings.py): no `auto` left in `trainer`.
        run: its directory takes metrics and checkpoints.
        attempt: number of the attempt, for the rows of metrics.jsonl.
        data: one that shards itself between ranks keeps Lightning from doing it again.
        ranks: this process among those a launcher started.
        task: with manual optimization clipping and accumulation are its own affair, and are not passed on.
    """
    quiet()
    make_lean()
    settings = {key: config.trainer[key] for key in PASSED_ON}
    if not task.automatic_optimization:
        settings |= {"gradient_clip_val": None, "accumulate_grad_batches": 1}
    return L.Trainer(
        **settings,
        num_nodes=ranks.n_nodes,
        strategy=strategy(config, ranks),
        use_distributed_sampler=not shards_itself(data),
        default_root_dir=run.dir,
        logger=build_loggers(config, run, attempt),
        log_every_n_steps=config.log.every_n_steps,
        callbacks=[
            *([BuffersAgree()] if int(config.trainer.devices) > 1 else []),
            LogMeans(),
            Progress(config.log.progress),
            *build_callbacks(config),
            PreemptionCallback(run.dir),
            Checkpoints(
                run.checkpoints,
                every_min=config.checkpoint.every_min,
                monitor=config.checkpoint.monitor,
                mode=config.checkpoint.mode,
            ),
        ],
        plugins=[AtomicCheckpointIO(), cluster_environment(ranks)],
        profiler=NoProfiler(),
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def strategy(config: DictConfig, ranks: Ranks) -> Strategy | str:
    return DDPStrategy() if max(ranks.world_size, int(config.trainer.devices)) > 1 else "auto"


def shards_itself(data: L.LightningDataModule) -> bool:
    """Whether each rank already reads its own share, so that Lightning must not share it out again."""
    return isinstance(data, H5DataModule)


def quiet() -> None:
    """Lightning's notices about devices, loader workers and products are not about the user's research."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*logging interval.*",
        ".*isinstance.treespec.*",
        ".*[Cc]heckpoint directory.*",
        ".*srun.*is available.*",
    ):
        warnings.filterwarnings("ignore", message=message)


def measured(trainer: L.Trainer) -> dict[str, Any]:
    """Figures of an ended fit for end.json."""
    figures: dict[str, Any] = {"global_step": trainer.global_step, "epoch": trainer.current_epoch}
    if trainer.strategy.root_device.type == "cuda":
        import torch

        figures["peak_gpu_bytes"] = torch.cuda.max_memory_allocated()
    return figures
