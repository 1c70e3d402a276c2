"""Builds the Trainer: settings, loggers and callbacks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any, cast

import lightning.pytorch as L
from lightning.fabric.plugins import CheckpointIO
from lightning.fabric.plugins.environments import ClusterEnvironment
from lightning.pytorch.plugins import Precision
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf

from ...config.check_target import is_target, refuse_other_trials
from ...config.trainer_arguments import check_trainer_argument, duration_s
from ...errors import LabError
from ...hdf5.read.datamodule import H5DataModule
from ...machine.ranks import discover
from ...record.read.run import Run
from ...record.write.attempt import note_attempt
from ..checkpoints.in_parts import PartsIO, save_in_parts
from ..exact.plain_loaders import PlainLoaders
from ..exact.unsaved import GradientsByHand
from ..lightning_internals import Internals
from ..trained.load import complete_load_from_checkpoint
from .build import build
from .callbacks import compiler_callbacks, fit_callbacks
from .compile import TellCompiled
from .ddp import BuffersAgree, cluster_environment, is_in_parts, own_strategy, strategy_for
from .loggers import build_loggers
from .settings import chosen_settings
from .validations import BY_STEPS

# Keys of the section `trainer` that Lightning's Trainer does not take.
NOT_LIGHTNINGS = ("val_every_steps", "matmul_precision", "threads", "test_after_fit", "test_with")
# Beginnings of warnings about devices, workers and products, not about the user's research. In a
# release that words one in another way it is shown.
IGNORED_WARNINGS = (
    # Lightning 2.6
    r"The '.+' does not have many workers which may be a bottleneck",
    r"The number of training batches \(\d+\) is smaller than the logging interval",
    r"The `srun` command is available on your system but is not used",
    r"Checkpoint directory .+ exists and is not empty",
    r"Couldn't infer the batch indices fetched from your dataloader",
    # torch 2.13, called by Lightning 2.6
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
# Loggers of Lightning that print what a user has asked for.
SHOWN = ("lightning.pytorch.callbacks.model_summary", "lightning.pytorch.profilers.profiler")


def build_trainer(
    config: DictConfig, run: Run, attempt: int, data: L.LightningDataModule, task: L.LightningModule
) -> L.Trainer:
    """A Trainer for one attempt of a run.

    Args:
        config: a configuration without `auto` (see `resolve_settings`).
        run: its directory takes metrics, profiles and checkpoints.
        attempt: number of the attempt, for the rows of metrics.jsonl.
    """
    refuse_other_trials(config.trial)
    n_accumulated = config.trainer.accumulate_grad_batches
    config = for_optimization(config, task)
    callbacks = fit_callbacks(config, run, attempt)
    if not task.automatic_optimization:
        callbacks.append(GradientsByHand())
    if config.trainer.accumulate_grad_batches != n_accumulated:
        callbacks.append(StepsByHand(config, run, attempt))
    for line in consequences(config.trainer):
        rank_zero_only(print)(line, flush=True)
    trainer = plain_trainer(
        config,
        data,
        task,
        default_root_dir=run.dir,
        logger=build_loggers(config, run, attempt),
        log_every_n_steps=config.log.every_n_steps,
        callbacks=callbacks,
        plugins=[PartsIO(run.checkpoints, background=config.checkpoint.get("background", False))],
        num_nodes=discover().n_nodes,
        strategy=strategy_for(config),
        **(BY_STEPS if config.trainer.get("val_every_steps") else {}),
    )
    if is_in_parts(config):
        save_in_parts(trainer.strategy)
    return trainer


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
        arguments: further arguments of Lightning's Trainer; they win over the section.
    """
    silence_lightning()
    complete_load_from_checkpoint()
    settings = lightning_settings(config)
    own_plugins = settings.pop("plugins", [])
    gives_parts = isinstance(data, H5DataModule)  # each rank its own
    if gives_parts and settings.get("use_distributed_sampler"):
        raise LabError(
            f"trainer.use_distributed_sampler has no meaning for {type(data).__name__}: it gives each "
            "process its own part already. Leave it out"
        )
    has_several = int(config.trainer.devices) > 1 or num_nodes > 1
    if has_several:
        callbacks = [BuffersAgree(), *callbacks]
    if not any(isinstance(callback, TellCompiled) for callback in callbacks):
        callbacks = [*callbacks, *compiler_callbacks(config)]
    if not any(isinstance(callback, PlainLoaders) for callback in callbacks):
        callbacks = [*callbacks, PlainLoaders()]  # each says how many samples a batch has
    if any(isinstance(plugin, Precision) for plugin in own_plugins):
        settings["precision"] = None  # Lightning takes one of the two
    defaults: dict[str, Any] = {
        "strategy": own_strategy(config) or (DDPStrategy() if has_several else "auto"),
        # Some callbacks want a logger. This one writes nothing.
        "logger": L.loggers.logger.DummyLogger(),
        "use_distributed_sampler": not gives_parts,
        "num_sanity_val_steps": 0,
        "enable_model_summary": False,
    }
    all_arguments = defaults | settings | arguments
    all_arguments |= {
        "num_nodes": num_nodes,
        "callbacks": [*callbacks, Internals(config.speed)],
        # Lightning would look for an environment, and import mpi4py, which fails without an MPI.
        "plugins": [*own_plugins, *plugins, cluster_environment(discover())],
        "enable_progress_bar": any(
            isinstance(callback, L.callbacks.ProgressBar) for callback in callbacks
        ),
    }
    try:
        return L.Trainer(**all_arguments)
    except (MisconfigurationException, AttributeError, TypeError, ValueError) as error:
        raise LabError(f"trainer: Lightning refuses these settings. {error}") from error


def lightning_settings(config: DictConfig) -> dict[str, Any]:
    """What the section `trainer` says to Lightning's Trainer, with its objects built, but without
    the strategy.
    """
    settings: Any = OmegaConf.to_container(config.trainer)
    for key, value in settings.items():
        check_trainer_argument(f"trainer.{key}", value, "trainer")
    for key in (*NOT_LIGHTNINGS, "strategy"):
        settings.pop(key, None)
    if is_target(settings.get("profiler")):
        settings["profiler"] = build(config.trainer, "profiler")
    nodes = settings.get("plugins") or []
    nodes = nodes if isinstance(nodes, list) else [nodes]
    settings["plugins"] = [
        build(DictConfig({"plugins": node}), "plugins") if is_target(node) else node
        for node in nodes
    ]
    for plugin in settings["plugins"]:
        if isinstance(plugin, CheckpointIO | ClusterEnvironment):
            raise LabError(
                f"trainer.plugins: {type(plugin).__name__} takes the place of labrig's own, which "
                "writes checkpoints that can be resumed, and knows the processes of a job. "
                "Leave it out"
            )
    return settings


def for_optimization(config: DictConfig, task: L.LightningModule) -> DictConfig:
    """The configuration to fit a task with: without what Lightning does in automatic optimization
    only, where the task optimizes by hand.

    A line says that `batch.global` has no effect then.
    """
    if task.automatic_optimization:
        return config
    trainer = config.trainer
    global_batch = config.batch["global"]
    names = []
    if trainer.gradient_clip_val:
        names.append(f"trainer.gradient_clip_val={trainer.gradient_clip_val}")
    if trainer.accumulate_grad_batches != 1 and global_batch is None:
        names.append(f"trainer.accumulate_grad_batches={trainer.accumulate_grad_batches}")
    if names:
        raise LabError(
            f"{' and '.join(names)}: {type(task).__name__} optimizes by hand "
            "(automatic_optimization = False), so nobody would do it. Leave it out, and in "
            "training_step call self.clip_gradients(optimizer, 1.0) before optimizer.step(), "
            "or step after several batches"
        )
    if global_batch is None:
        return config
    rank_zero_only(print)(
        f"batch.global={global_batch} has no effect: {type(task).__name__} optimizes by hand, and "
        "decides itself after how many batches it steps.",
        flush=True,
    )
    by_hand = {"trainer": {"accumulate_grad_batches": 1}}
    return cast("DictConfig", OmegaConf.merge(config, by_hand))


class StepsByHand(L.Callback):
    """Records that nobody accumulates the batches that `batch.global` asks for.

    Args:
        config: from `for_optimization`.
    """

    def __init__(self, config: DictConfig, run: Run, attempt: int) -> None:
        self.chosen = chosen_settings(config)
        self.run_dir = run.dir
        self.attempt = attempt

    @rank_zero_only
    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        note_attempt(
            self.run_dir,
            self.attempt,
            accumulate_grad_batches=self.chosen.accumulate_grad_batches,
            samples_per_step=self.chosen.samples_per_step,
        )


def consequences(trainer: DictConfig) -> list[str]:
    """A line for each argument of the Trainer that makes a run another one than it seems."""
    lines = []
    if trainer.get("fast_dev_run"):
        lines.append(
            "trainer.fast_dev_run: Lightning writes no metrics then, and trains, validates and tests "
            "a few batches only. A short run with a record: +debug=fast"
        )
    if trainer.get("max_time"):
        lines.append(
            "trainer.max_time ends the run by the clock: a repetition may end at another step. "
            "trainer.max_steps=N ends it at the same one."
        )
    if duration_s(trainer.get("val_check_interval")) is not None:
        lines.append(
            "trainer.val_check_interval validates by the clock: a repetition may validate at other "
            "steps. A number of batches validates at the same ones."
        )
    n_epochs, every_n_epochs = trainer.get("max_epochs"), trainer.get("check_val_every_n_epoch")
    is_by_steps = trainer.get("val_every_steps")
    if n_epochs and every_n_epochs and 0 < n_epochs < every_n_epochs and not is_by_steps:
        lines.append(
            f"trains {n_epochs} of the {every_n_epochs} epochs between two validations: no val/ "
            "metric, no best.ckpt. Set trainer.check_val_every_n_epoch=1"
        )
    return lines


def silence_lightning() -> None:
    """Leaves out Lightning's notices; its errors are shown."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in SHOWN:
        logging.getLogger(name).setLevel(logging.INFO)
    for beginning in IGNORED_WARNINGS:
        warnings.filterwarnings("ignore", message=beginning)
