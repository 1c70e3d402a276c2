"""Builds the Trainer: settings, loggers and callbacks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as L
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.strategies import DDPStrategy, Strategy
from omegaconf import DictConfig, OmegaConf

from ..hdf5.datamodule import H5DataModule
from ..machine.ranks import discover
from ..record.run import Run
from .callbacks import fit_callbacks
from .checkpoint import AtomicCheckpointIO
from .ddp import BuffersAgree, cluster_environment, strategy_for
from .lightning_internals import Internals
from .loggers import build_loggers

# Keys of the section `trainer` that Lightning's Trainer does not take.
NOT_LIGHTNINGS = ("matmul_precision", "threads", "test_after_fit")
# Words of warnings about devices, workers and products, not about the user's research.
IGNORED_WARNINGS = (
    "many workers",
    "logging interval",
    "isinstance.treespec",
    "srun",
    "heckpoint directory",
    "infer the batch indices",
)


def build_trainer(
    config: DictConfig, run: Run, attempt: int, data: L.LightningDataModule, task: L.LightningModule
) -> L.Trainer:
    """A Trainer for one attempt of a run.

    Args:
        config: a configuration without `auto` (see `resolve_settings`).
        run: its directory takes metrics, profiles and checkpoints.
        attempt: number of the attempt, for the rows of metrics.jsonl.
    """
    return plain_trainer(
        config,
        data,
        task,
        default_root_dir=run.dir,
        logger=build_loggers(config, run, attempt),
        log_every_n_steps=config.log.every_n_steps,
        callbacks=fit_callbacks(config, run, attempt),
        plugins=[AtomicCheckpointIO(run.checkpoints)],
        num_nodes=discover().n_nodes,
        strategy=strategy_for(config),
    )


def plain_trainer(
    config: DictConfig,
    data: L.LightningDataModule,
    task: L.LightningModule,
    *,
    callbacks: list[L.Callback],
    plugins: Sequence[CheckpointIO] = (),
    num_nodes: int = 1,
    **arguments: Any,
) -> L.Trainer:
    """A Trainer with the settings of the section `trainer`, which writes nothing by itself.

    Args:
        config: a configuration without `auto`.
        callbacks: in order. Every Trainer has Internals after them, and with several processes
            BuffersAgree before them.
        arguments: further arguments of Lightning's Trainer.
    """
    silence_lightning()
    settings: Any = OmegaConf.to_container(config.trainer)
    for key in NOT_LIGHTNINGS:
        settings.pop(key, None)
    if not task.automatic_optimization:
        # Clipping and accumulation are the task's own then; Lightning refuses to do them.
        settings["gradient_clip_val"] = None
        settings["accumulate_grad_batches"] = 1
    strategy: str | Strategy = "auto"
    if int(config.trainer.devices) > 1 or num_nodes > 1:
        strategy = DDPStrategy()
        callbacks = [BuffersAgree(), *callbacks]
    arguments.setdefault("strategy", strategy)
    # Some callbacks want a logger. This one writes nothing.
    arguments.setdefault("logger", L.loggers.logger.DummyLogger())
    return L.Trainer(
        **settings,
        **arguments,
        num_nodes=num_nodes,
        callbacks=[*callbacks, Internals(config.speed)],
        # Lightning would look for an environment, and import mpi4py, which fails without an MPI.
        plugins=[*plugins, cluster_environment(discover())],
        # Our data gives each rank its own part already.
        use_distributed_sampler=not isinstance(data, H5DataModule),
        num_sanity_val_steps=0,
        enable_progress_bar=any(
            isinstance(callback, L.callbacks.ProgressBar) for callback in callbacks
        ),
        enable_model_summary=False,
    )


def silence_lightning() -> None:
    """Leaves out Lightning's notices; its errors are shown."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for words in IGNORED_WARNINGS:
        warnings.filterwarnings("ignore", message=f".*{words}")
