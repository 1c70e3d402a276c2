# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Builds the Trainer with the callbacks and loggers of a run."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig

from ..hdf5 import H5DataModule
from ..machine.ranks import discover
from ..record.run import Run
from .build import build_callbacks
from .checkpoint import AtomicCheckpointIO, Checkpoints
from .ddp import BuffersAgree, NodeFacts, cluster_environment, strategy_for
from .lightning_internals import Internals
from .loggers import build_loggers
from .means import LogMeans
from .preemption import PreemptionCallback
from .progress import Progress

OURS = (
    "matmul_precision",
    "threads",
    "test_after_fit",
)  # keys of `trainer` that Lightning's Trainer does not take
NOTICES = ("many workers", "logging interval", "isinstance.treespec", "srun", "heckpoint directory")


def build_trainer(
    config: DictConfig, run: Run, attempt: int, data: L.LightningDataModule, task: L.LightningModule
) -> L.Trainer:
    """A Trainer for one attempt of a run.

    Args:
        config: settled configuration (see `settle`): no `auto` left in `trainer`.
        run: its directory takes metrics and checkpoints.
        attempt: number of the attempt, for the rows of metrics.jsonl.
    """
    keep, ranks = config.checkpoint, discover()
    return plain_trainer(
        config,
        data,
        task,
        default_root_dir=run.dir,
        logger=build_loggers(config, run, attempt),
        log_every_n_steps=config.log.every_n_steps,
        callbacks=[
            LogMeans(),
            Progress(config.log.progress),
            *build_callbacks(config),
            NodeFacts(run, attempt),
            PreemptionCallback(run.dir),
            Checkpoints(
                run.checkpoints, every_min=keep.every_min, monitor=keep.monitor, mode=keep.mode
            ),
        ],
        plugins=[AtomicCheckpointIO(), cluster_environment(ranks)],
        num_nodes=ranks.n_nodes,
        strategy=strategy_for(config),
    )


def plain_trainer(
    config: DictConfig,
    data: L.LightningDataModule,
    task: L.LightningModule,
    *,
    callbacks: list[L.Callback],
    **more: Any,
) -> L.Trainer:
    """A Trainer with the settings of `trainer` that writes nothing by itself.

    Data that shards itself between ranks is not sharded again; with manual optimization, clipping and accumulation are
    the task's own affair.
    """
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for notice in NOTICES:  # about devices, workers and products, not about the user's research
        warnings.filterwarnings("ignore", message=f".*{notice}")
    settings = {key: value for key, value in config.trainer.items() if key not in OURS}
    if not task.automatic_optimization:
        settings |= {"gradient_clip_val": None, "accumulate_grad_batches": 1}
    several = int(config.trainer.devices) > 1 or more.get("num_nodes", 1) > 1
    more.setdefault("strategy", DDPStrategy() if several else "auto")
    return L.Trainer(
        **settings,
        use_distributed_sampler=not isinstance(data, H5DataModule),
        callbacks=[*([BuffersAgree()] if several else []), *callbacks, Internals(config.speed)],
        num_sanity_val_steps=0,
        enable_progress_bar=any(isinstance(one, L.callbacks.ProgressBar) for one in callbacks),
        enable_model_summary=False,
        **({"logger": L.loggers.logger.DummyLogger()} | more),  # some callbacks want one
    )
