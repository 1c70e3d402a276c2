"""Measures some steps of a training with the chronometer; `lab bench --lr`: the loss while the learning rate rises."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.distributed.tensor import DTensor

from ..config.compose import compose
from ..errors import LabError
from ..hdf5.read.datamodule import data_ranks
from ..machine.ranks import discover
from ..project import Project
from ..training.checkpoints.in_parts import PartsIO, save_in_parts
from ..training.lightning_internals import loop_line
from ..training.parts.accelerate import accelerate, n_parameters_of, sized_parameters
from ..training.parts.build import build_callbacks, build_data, build_task
from ..training.parts.ddp import is_in_parts, strategy_for
from ..training.parts.settings import ChosenSettings, apply_settings, resolve_settings
from ..training.parts.trainer import for_optimization, plain_trainer
from ..training.watch.batch_size import describe_lengths, n_samples_of
from ..training.watch.means import LogMeans
from ..training.watch.profilers import build_profiler
from .chronometer import Chronometer, StepFigures
from .report import BenchReport, Picture
from .result import Measurement, MemoryBytes, StageTimes
from .run_bench import OUT_OF_MEMORY, OutOfMemory

NO_MEMORY = (
    "can't allocate memory",  # on a CPU
    "CUDA error: out of memory",
    "ALLOC_FAILED",  # of cuBLAS and cuDNN
)
# A training that neither ends nor validates before the chronometer has its steps.
ENDLESS = {
    "max_epochs": 10**6,
    "min_epochs": None,
    "max_steps": -1,
    "min_steps": None,
    "max_time": None,
    "check_val_every_n_epoch": 10**6,
    "val_check_interval": None,
    "num_sanity_val_steps": 0,
    "fast_dev_run": False,
}
EVALUATED = 20  # batches of validation and test that are timed
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WEIGHTED = (nn.Linear, nn.Embedding, *CONVOLUTIONS, *TRANSPOSED)
LEAST_EXPONENT = -7  # the rates rise from 1e-7 to 1
SMOOTHING = 0.9  # weight of the losses before, in the mean


@dataclass(frozen=True)
class Bench:
    """The parts of a training that is only measured."""

    chosen: ChosenSettings  # what `auto` became, for the result
    trainer: L.Trainer
    task: L.LightningModule
    data: L.LightningDataModule


def build_bench(config: DictConfig, directory: str, callbacks: list[L.Callback]) -> Bench:
    """The parts of a training as train.py builds them, without logger, checkpoints and end.

    Args:
        config: as composed; it is not changed.
        directory: where Lightning may write.
        callbacks: in place of those of a training.
    """
    is_simple = config.profile.get("kind") == "simple"
    if is_simple or config.trainer.get("profiler"):
        name = "profile=simple" if is_simple else "trainer.profiler"
        raise LabError(
            f"{name} replaces the profiler with which lab bench measures. "
            "Leave it out, or choose another profile"
        )
    settings = resolve_settings(config, first_attempt={})
    apply_settings(settings.config)
    config = cast("DictConfig", OmegaConf.merge(settings.config, {"trainer": ENDLESS}))
    profile = build_profiler(config, Path(directory).parent / "profile")
    data = build_data(config)
    task = build_task(config)
    config = for_optimization(config, task)
    task = accelerate(task, config)
    ranks = discover()
    trainer = plain_trainer(
        config,
        data,
        task,
        callbacks=[*profile, DropPlateauSchedules(), *callbacks],
        default_root_dir=directory,
        enable_checkpointing=False,
        log_every_n_steps=config.log.every_n_steps,
        num_nodes=ranks.n_nodes,
        strategy=strategy_for(config),
        plugins=[PartsIO()],
    )
    if is_in_parts(config):
        save_in_parts(trainer.strategy)
    return Bench(settings.chosen, trainer, task, data)


class DropPlateauSchedules(L.Callback):
    """Removes schedules that wait for a validation, which a bench never makes."""

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        schedules = trainer.strategy.lr_scheduler_configs
        trainer.strategy.lr_scheduler_configs = [
            schedule for schedule in schedules if not schedule.reduce_on_plateau
        ]


class CountSamples(L.Callback):
    """Counts the samples of each batch; stops the training when the chronometer has finished."""

    def __init__(self) -> None:
        self.n_samples: list[int] = []

    def on_train_batch_start(
        self, trainer: L.Trainer, task: L.LightningModule, batch: Any, *_: Any
    ) -> None:
        n_samples = n_samples_of(trainer, batch)
        if n_samples is None:
            raise LabError(
                "lab bench counts samples, and how many a batch has is not known "
                f"({describe_lengths(batch)}). Let a torch DataLoader or an H5DataModule cut the batches"
            )
        self.n_samples.append(n_samples)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.profiler.finished:
            trainer.should_stop = True


def measure(
    config: DictConfig, directory: Path, n_steps: int, started_s: float
) -> Measurement | None:
    """Trains `n_steps` optimizer steps after WARMUP others, and evaluates a few batches.

    Args:
        config: as composed; it is not changed.
        directory: where a checkpoint is written, timed and removed; nothing stays in it.
        n_steps: how many steps are timed.
        started_s: time.perf_counter() when the command began.

    Returns: None on other ranks than the first.
    """
    samples = CountSamples()
    # Those that monitor a metric would wait for a validation
    own_callbacks = [one for one in build_callbacks(config) if not hasattr(one, "monitor")]
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory) as temporary:
        bench = build_bench(config, temporary, [LogMeans(), samples, *own_callbacks])
        trainer = bench.trainer
        clock = Chronometer(trainer, n_steps, trainer.accumulate_grad_batches)
        trainer.profiler = clock
        fit(bench, samples)
        memory = memory_of(bench, clock)
        checkpoint_s = time_checkpoint(trainer, Path(temporary, "last.ckpt"))
        val_s = time_evaluation(bench, "val", config.trainer.limit_val_batches)
        test_s = time_evaluation(bench, "test", config.trainer.limit_test_batches)
    if not trainer.is_global_zero:
        return None
    measured = clock.measured_batches
    figures = clock.figures(sum(samples.n_samples[measured.start : measured.stop]))
    times_s = StageTimes(
        startup=clock.marks[0].host_s - started_s,
        step=figures.one_step_s,
        epoch=figures.epoch_extra_s,
        val=val_s,
        test=test_s,
        checkpoint=checkpoint_s,
    )
    return build_measurement(bench, clock, figures, times_s, memory, max(samples.n_samples))


def fit(bench: Bench, samples: CountSamples) -> None:
    """Trains until the chronometer has its steps."""
    try:
        bench.trainer.fit(bench.task, datamodule=bench.data)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        n_samples = max(samples.n_samples, default=0)
        raise OutOfMemory(
            f"{OUT_OF_MEMORY} with {n_samples} samples in a batch. Lower data.batch_size"
        ) from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """torch has a class for what its own allocator of a GPU lacks, and words for the others."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in NO_MEMORY)


def memory_of(bench: Bench, clock: Chronometer) -> MemoryBytes:
    """Bytes of each kind on one device, right after the measured steps."""
    parameters = sized_parameters(bench.task)
    states = [
        value
        for optimizer in bench.trainer.optimizers
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
    return MemoryBytes(
        weights=n_bytes([*parameters, *bench.task.buffers()]),
        gradients=n_bytes([p.grad for p in parameters if p.grad is not None]),
        optimizer=n_bytes(states),
        activations=sum(clock.saved_bytes.values()),
        peak=torch.cuda.max_memory_allocated() if clock.cuda else None,
        device=torch.cuda.mem_get_info()[1] if clock.cuda else None,
    )


def n_bytes(tensors: list[torch.Tensor]) -> int:
    """Bytes that this process holds of the tensors, which FSDP2 spreads over the processes."""
    return sum(
        tensor.to_local().nbytes if isinstance(tensor, DTensor) else tensor.nbytes
        for tensor in tensors
    )


def time_checkpoint(trainer: L.Trainer, path: Path) -> float:
    """Seconds that one checkpoint takes."""
    begin_s = time.perf_counter()
    trainer.save_checkpoint(path)
    return time.perf_counter() - begin_s


def time_evaluation(bench: Bench, split: str, limit: int | float) -> float:
    """Seconds that one pass over a split takes, computed from the first EVALUATED batches.

    Args:
        split: "val" or "test".
        limit: batches of the pass, as a number or (a float) as a share of all.

    Returns: 0.0 when there is no such split.
    """
    trainer = bench.trainer
    setattr(trainer, f"limit_{split}_batches", EVALUATED)
    evaluate = trainer.validate if split == "val" else trainer.test
    try:
        evaluate(bench.task, datamodule=bench.data, verbose=False)
    except MisconfigurationException:
        return 0.0
    loaders = getattr(trainer, f"{split}_dataloaders")
    if not isinstance(loaders, list):
        loaders = [loaders]
    n_batches = sum(len(loader) for loader in loaders)
    n_batches = n_batches * limit if isinstance(limit, float) else min(limit, n_batches)
    n_timed = max(1, min(EVALUATED, n_batches))
    return trainer.profiler.evaluation_s(split) * n_batches / n_timed


def build_measurement(
    bench: Bench,
    clock: Chronometer,
    figures: StepFigures,
    times_s: StageTimes,
    memory: MemoryBytes,
    samples_per_batch: int,
) -> Measurement:
    trainer = bench.trainer
    chosen = bench.chosen
    accumulate = trainer.accumulate_grad_batches
    n_batches = trainer.num_training_batches
    steps_per_epoch = None if math.isinf(n_batches) else math.ceil(n_batches / accumulate)
    return Measurement(
        accelerator=chosen.accelerator,
        device=chosen.device,
        devices=chosen.devices,
        precision=chosen.precision,
        matmul_precision=chosen.matmul_precision,
        threads=chosen.threads,
        deterministic=chosen.deterministic,
        accumulate_grad_batches=chosen.accumulate_grad_batches,
        world_size=trainer.world_size,
        n_steps=figures.n_steps,
        samples_per_step=samples_per_batch * accumulate * data_ranks(trainer)[1],
        steps_per_epoch=steps_per_epoch,
        step_s=figures.step_s,
        parts_s=figures.parts_s,
        shares=figures.shares,
        launch_s=figures.launch_s,
        copy_share=figures.copy_share,
        loop=loop_line(trainer),
        samples_per_s=figures.samples_per_s,
        power_w=figures.power_w,
        joules_per_sample=figures.joules_per_sample,
        times_s=times_s,
        flops_per_step=clock.flops.get_total_flops() * accumulate,
        n_parameters=n_parameters_of(bench.task),
        uneven=uneven_layers(bench.task),
        memory_bytes=memory,
        series_s=figures.series_s,
    )


def uneven_layers(task: L.LightningModule) -> list[str]:
    """Layers with a dimension above 4 that is no multiple of 8, for which tensor cores idle."""
    uneven = []
    for name, layer in task.named_modules():
        if isinstance(layer, WEIGHTED):
            shape = layer.weight.shape[:2]
            if any(n > 4 and n % 8 for n in shape):
                uneven.append(f"{name} {tuple(shape)}")
    return uneven


@dataclass(frozen=True)
class LossCurve:
    """Smoothed losses at rising learning rates, and the rate at which the loss falls fastest."""

    lr: list[float]
    loss: list[float]
    suggestion: float


def find_learning_rate(project: Project, overrides: list[str], n_steps: int) -> BenchReport:
    config = compose(project, overrides).config
    curve = loss_curve(config, max(100, n_steps))
    points = list(zip(curve.lr, curve.loss, strict=True))
    best = f"{curve.suggestion:.1e}"
    lines = ["        lr  loss"]
    lines += [f"{rate:>10.1e}  {loss:.4f}" for rate, loss in points[::6]]
    lines += [
        f"The loss falls fastest at {best}. Nothing was changed; to try it: optimizer.lr={best}"
    ]
    picture = Picture("learning rate", "loss", {"loss": points}, marked=curve.suggestion)
    return BenchReport(asdict(curve), "\n".join(lines), picture)


def loss_curve(config: DictConfig, n_steps: int) -> LossCurve:
    """Trains `n_steps` steps, each with a higher learning rate.

    Lightning's lr_find does the same for a rate that is an attribute of the task.
    Here it belongs to the optimizer.
    """
    exponents = [LEAST_EXPONENT * (1 - i / (n_steps - 1)) for i in range(n_steps)]
    ramp = LearningRateRamp([10**exponent for exponent in exponents])
    one_device = {"trainer": {"devices": 1, "accumulate_grad_batches": 1}}
    config = cast("DictConfig", OmegaConf.merge(config, one_device))
    with tempfile.TemporaryDirectory() as temporary:
        bench = build_bench(config, temporary, [ramp])
        if not bench.task.automatic_optimization:
            raise LabError(
                "--lr needs the loss that training_step returns, "
                "but this task steps its optimizers by itself"
            )
        bench.trainer.fit(bench.task, datamodule=bench.data)
    losses = smooth(torch.stack(ramp.losses).tolist())
    return LossCurve(ramp.rates, losses, steepest(ramp.rates, losses))


class LearningRateRamp(L.Callback):
    """Sets the learning rate of each step, keeps its loss, and stops after the last rate."""

    def __init__(self, rates: list[float]) -> None:
        self.rates = rates
        self.losses: list[torch.Tensor] = []

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        rate = self.rates[len(self.losses)]
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def on_train_batch_end(
        self, trainer: L.Trainer, task: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.losses.append(outputs["loss"].detach())
        trainer.should_stop = len(self.losses) == len(self.rates)


def smooth(losses: list[float]) -> list[float]:
    """Exponential mean of the losses so far, without the bias of its beginning."""
    smoothed = []
    mean = 0.0
    for i, loss in enumerate(losses):
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smoothed.append(mean / (1 - SMOOTHING ** (i + 1)))
    return smoothed


def steepest(rates: list[float], losses: list[float]) -> float:
    """The rate around which the loss falls most over ten steps, before its lowest value."""
    lowest = losses.index(min(filter(math.isfinite, losses)))
    end = max(11, min(lowest, len(losses) - 5))
    best = max(range(10, end), key=lambda i: losses[i - 5] - losses[i + 5])
    return rates[best]
