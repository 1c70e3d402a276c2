# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The chronometer: what a training step consists of, on the real data path, through the real Trainer.

It is a Lightning profiler that notes the time where a part begins and ends, and works everything out afterwards. On CUDA
each note is an event in the device's own stream, so nothing waits: a part's time is the device's, and loading counts as
far as the device stood still for it.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ..errors import LabError
from ..fit.checkpoint import AtomicCheckpointIO
from ..fit.metrics import LogMeans, size_of
from ..fit.parts import build_callbacks, build_data, build_task
from ..fit.trainer import cluster_environment, plain_trainer, settle
from ..machine.ranks import discover
from ..record.environment import energy_j
from .accelerate import NoProfiler, accelerate, lean, scale
from .forecast import OutOfMemory
from .observe import build_profile

PARTS = {  # by the names that Lightning gives to what it does
    "train_dataloader_next": "load", "batch_to_device": "load", "training_step": "forward", "backward": "backward",
    "optimizer_step": "optimizer", "val_next": "val", "validation_step": "val", "test_next": "test", "test_step": "test",
}  # fmt: skip
SHOWN = ("load", "forward", "backward", "optimizer", "other")
WARMUP, EVALUATED = 10, 20  # steps before the measured ones; batches of validation and test that are timed
WEIGHTED = (nn.Linear, nn.Embedding, nn.modules.conv._ConvNd)


class Mark(NamedTuple):
    """A moment: a batch begins, or a part begins or ends. `event` lies in the stream of a CUDA device."""

    kind: str
    part: str | None
    host_s: float
    event: torch.cuda.Event | None


class Chronometer(NoProfiler):
    """Times `n_steps` optimizer steps of `accumulate` batches after WARMUP; of the first batch it counts the FLOPs instead."""

    def __init__(self, trainer: L.Trainer, n_steps: int, accumulate: int) -> None:
        super().__init__()
        self.trainer, self.cuda = trainer, trainer.strategy.root_device.type == "cuda"
        self.first, self.last = WARMUP * accumulate, (WARMUP + n_steps) * accumulate  # batches
        self.edges: list[tuple[int, float | None]] = []  # at those: number of marks, joules used by then
        self.marks: list[Mark] = []
        self.epochs: list[int] = []  # number of marks when each epoch began
        self.n_batches, self.counting, self.saved = 0, ExitStack(), {}
        self.flops = FlopCounterMode(display=False)

    def mark(self, kind: str, part: str | None = None) -> None:
        event = torch.cuda.Event(enable_timing=True) if self.cuda else None
        if event:
            event.record()
        self.marks.append(Mark(kind, part, time.perf_counter(), event))

    def profile(self, action_name: str) -> AbstractContextManager:
        if action_name == "run_training_epoch":
            self.epochs.append(len(self.marks))
        return Profiler.profile(self, action_name) if action_name in PARTS else self.nothing

    def start(self, action_name: str) -> None:
        action = action_name.rpartition(".")[2]
        if action == "train_dataloader_next":
            self.begin_batch()
        elif action == "training_step" and self.n_batches == 1:
            self.count()
        if action in PARTS:
            self.mark("begin", PARTS[action])

    def stop(self, action_name: str) -> None:
        if (action := action_name.rpartition(".")[2]) in PARTS:
            self.mark("end", PARTS[action])

    def begin_batch(self) -> None:
        self.counting.close()
        if self.n_batches in (self.first, self.last):  # between two steps: here one may wait for the device
            self.trainer.should_stop = self.n_batches == self.last
            if self.cuda:
                torch.cuda.synchronize()
            if self.cuda and not self.edges:
                torch.cuda.reset_peak_memory_stats()
            self.edges.append((len(self.marks), energy_j()))
        self.n_batches += 1
        self.mark("batch")

    def count(self) -> None:
        """From here to the next batch, counts FLOPs and the tensors that are kept for the backward pass, uncompiled."""

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            self.saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        self.counting.enter_context(torch.compiler.set_stance("force_eager"))
        self.counting.enter_context(saved_tensors_hooks(keep, lambda tensor: tensor))
        self.counting.enter_context(self.flops)

    def elapsed_s(self, begin: Mark, end: Mark) -> float:
        return begin.event.elapsed_time(end.event) / 1000 if self.cuda else end.host_s - begin.host_s

    def steps(self, host: bool = False) -> list[Counter]:
        """Seconds of each part of each measured step, by the device's clock or the host's; a moment belongs to the
        innermost part that it lies in, else to `other`, so the parts of a step add up to the whole of it."""
        (first, _), (last, _) = self.edges
        marks = self.marks[first : last + 1]
        stepping = any(mark.part == "optimizer" for mark in marks)  # False: the task calls its optimizers by itself
        steps, inside = [Counter()], []
        for mark, following in pairwise(marks):
            if mark.kind == "begin":
                inside.append(mark.part)
            elif mark.kind == "end":
                inside.pop()
            elif steps[-1] and ("optimizer" in steps[-1] or not stepping):
                steps.append(Counter())
            seconds = following.host_s - mark.host_s if host else self.elapsed_s(mark, following)
            steps[-1][inside[-1] if inside else "other"] += seconds
        return steps

    def evaluation_s(self, part: str) -> float:
        marks = [mark for mark in self.marks if mark.part == part]
        if self.cuda:
            torch.cuda.synchronize()
        return self.elapsed_s(marks[0], marks[-1]) if marks else 0.0

    def figures(self, n_samples: int) -> dict[str, Any]:
        """What the measured steps give, in which this process saw `n_samples`."""
        steps, ((first, before_j), (last, after_j)) = self.steps(), self.edges
        whole_s, n_devices = [sum(step.values()) for step in steps], self.trainer.num_devices
        alone = self.cuda and torch.cuda.device_count() == n_devices  # else the energy of others would be counted
        used_j = after_j - before_j if alone and None not in (before_j, after_j) else None
        series_s = {part: [step[part] for step in steps] for part in SHOWN}
        n_epochs = sum(first < index <= last for index in self.epochs)
        step_s = statistics.median(whole_s) if n_epochs else statistics.mean(whole_s)
        return {
            "n_steps": len(steps),
            "step_s": spread(whole_s),
            "parts_s": {part: spread(seconds) for part, seconds in series_s.items()},
            "shares": {part: sum(seconds) / sum(whole_s) for part, seconds in series_s.items()},
            "launch_s": min(sum(step.values()) - step["load"] for step in self.steps(host=True)),
            "samples_per_s": n_samples * self.trainer.world_size / sum(whole_s),
            "power_w": used_j and used_j / sum(whole_s) / n_devices,
            "joules_per_sample": used_j and used_j / n_samples / n_devices,
            "times_s": {"step": step_s, "epoch": (sum(whole_s) - len(steps) * step_s) / max(1, n_epochs)},
            "series_s": series_s,
        }


class Watch(L.Callback):
    """Counts samples, and takes out schedules that wait for a validation; with `lr`, sets that of each step, keeps losses."""

    def __init__(self, lr: list[float] | None = None) -> None:
        self.lr, self.losses, self.samples = lr, [], []

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        schedules = trainer.strategy.lr_scheduler_configs
        trainer.strategy.lr_scheduler_configs = [one for one in schedules if not one.reduce_on_plateau]

    def on_train_batch_start(self, trainer: L.Trainer, task: L.LightningModule, batch: Any, *_: Any) -> None:
        self.samples.append(size_of(batch))
        for optimizer in trainer.optimizers if self.lr else []:
            for group in optimizer.param_groups:
                group["lr"] = self.lr[len(self.losses)]

    def on_train_batch_end(self, trainer: L.Trainer, task: L.LightningModule, outputs: Any, *_: Any) -> None:
        if self.lr:
            self.losses.append(outputs["loss"].detach())
            trainer.should_stop = len(self.losses) == len(self.lr)


def build(config: DictConfig, directory: str, callbacks: list[L.Callback]) -> tuple[dict, L.Trainer, Any, Any]:
    """The parts of a training as train.py builds them, without logger and checkpoints, and without an end."""
    settled = settle(config, earlier={}) | scale(config)
    if config.profile.get("kind") == "simple":
        raise LabError("profile=simple would take the place of the chronometer of lab bench; leave it out")
    callbacks = [*build_profile(config, Path(directory).parent / "profile"), *callbacks]
    config.trainer.update(max_epochs=10**6, max_steps=-1, check_val_every_n_epoch=10**6)
    data, task = build_data(config), accelerate(build_task(config), config)
    ranks, how = discover(), {"enable_checkpointing": False, "default_root_dir": directory}
    how |= {"log_every_n_steps": config.log.every_n_steps, "num_nodes": ranks.n_nodes}
    how["plugins"] = [AtomicCheckpointIO(), cluster_environment(ranks)]
    return settled, lean(plain_trainer(config, data, task, callbacks=callbacks, **how)), task, data


def measure(config: DictConfig, directory: Path, n_steps: int, started_s: float) -> dict[str, Any] | None:
    """Trains `n_steps` optimizer steps after WARMUP and evaluates a few batches; nothing of it stays.

    Args:
        config: composed configuration; it is settled and changed here.
        directory: where a checkpoint is written, timed and removed.
        started_s: time.perf_counter() when the command had read its settings.

    Returns: what bench.json holds of the measurement; None on other ranks than the first.
    """
    limits, watch = {stage: config.trainer[f"limit_{stage}_batches"] for stage in ("val", "test")}, Watch()
    own = [callback for callback in build_callbacks(config) if not hasattr(callback, "monitor")]
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory) as temporary:
        settled, trainer, task, data = build(config, temporary, [LogMeans(), watch, *own])
        accumulate = trainer.accumulate_grad_batches
        trainer.profiler = clock = Chronometer(trainer, n_steps, accumulate)
        try:
            trainer.fit(task, datamodule=data)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
                raise
            raise OutOfMemory(f"out of memory with {max(watch.samples, default=0)} samples: lower it") from error
        bytes_kept, before_s = memory(task, trainer, clock), time.perf_counter()
        trainer.save_checkpoint(Path(temporary) / "last.ckpt")
        times_s = {"checkpoint": time.perf_counter() - before_s, "startup": clock.marks[0].host_s - started_s}
        times_s |= {stage: evaluate(trainer, task, data, stage, limits[stage]) for stage in limits}
    if not trainer.is_global_zero:
        return None
    found, n_batches = clock.figures(sum(watch.samples[clock.first : clock.last])), trainer.num_training_batches
    layers = [(name, layer.weight.shape[:2]) for name, layer in task.named_modules() if isinstance(layer, WEIGHTED)]
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


def evaluate(trainer: L.Trainer, task: L.LightningModule, data: Any, stage: str, limit: float) -> float:
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


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, least, and the distance of the quartiles."""
    low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
    return {"median": middle, "min": min(seconds), "spread": high - low}


def memory(task: L.LightningModule, trainer: L.Trainer, clock: Chronometer) -> dict[str, int | None]:
    """Bytes of each part on one device; `peak` is what torch's allocator held during the measured steps."""
    states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
    tensors = {
        "weights": [*task.parameters(), *task.buffers()],
        "gradients": [p.grad for p in task.parameters() if p.grad is not None],
        "optimizer": [value for state in states for value in state.values() if isinstance(value, torch.Tensor)],
    }
    kept = {name: sum(getattr(t, "_local_tensor", t).nbytes for t in group) for name, group in tensors.items()}
    on_cuda = (torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()[1]) if clock.cuda else (None, None)
    return kept | {"activations": sum(clock.saved.values()), "peak": on_cuda[0], "device": on_cuda[1]}


def lr_curve(config: DictConfig, n_steps: int) -> dict[str, Any]:
    """Smoothed losses at learning rates from 1e-7 to 1, and the rate at which they fall fastest per decade. Lightning's
    lr_find does the same for a rate that is an attribute of the task; here it belongs to the optimizer.

    Raises:
        LabError: the task calls its optimizers by itself, so no loss comes back from its step.
    """
    watch = Watch([10 ** (7 * i / (n_steps - 1) - 7) for i in range(n_steps)])
    config.trainer.update(devices=1, accumulate_grad_batches=1)
    with tempfile.TemporaryDirectory() as temporary:
        _, trainer, task, data = build(config, temporary, [watch])
        if not task.automatic_optimization:
            raise LabError("--lr needs the loss that training_step returns; this task steps its optimizers by itself")
        trainer.fit(task, datamodule=data)
    losses, mean = [], 0.0
    for i, loss in enumerate(torch.stack(watch.losses).tolist()):
        mean = 0.9 * mean + 0.1 * loss
        losses.append(mean / (1 - 0.9 ** (i + 1)))
    lowest = losses.index(min(filter(math.isfinite, losses)))
    falls = {watch.lr[i]: losses[i - 5] - losses[i + 5] for i in range(10, max(11, min(lowest, n_steps - 5)))}
    return {"lr": watch.lr, "loss": losses, "suggestion": max(falls, key=falls.get)}
