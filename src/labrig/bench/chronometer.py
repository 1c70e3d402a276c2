"""A Lightning profiler that records a moment at the start and end of each part of a step.

The times are computed afterwards. On CUDA a moment is an event in the device's stream.
So nothing waits within a step, and `load` is the time that the GPU waited for data.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import PassThroughProfiler, Profiler
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ..hdf5.read.datamodule import data_ranks
from ..machine.gpu import energy_j
from .result import Spread

WARMUP = 10  # steps before the measured ones
STEP_PARTS = ("load", "forward", "backward", "optimizer", "other")
PART_OF_ACTION = {  # by Lightning's name for an action
    "train_dataloader_next": "load",
    "batch_to_device": "load",
    "training_step": "forward",
    "backward": "backward",
    "optimizer_step": "optimizer",
    "val_next": "val",
    "validation_step": "val",
    "test_next": "test",
    "test_step": "test",
}
NO_ACTION = nullcontext()


class Kind(Enum):
    """What happens at a moment."""

    BATCH_BEGINS = 1
    PART_BEGINS = 2
    PART_ENDS = 3


@dataclass(frozen=True)
class Mark:
    """A moment on the host's clock and, on CUDA, in the device's stream."""

    kind: Kind
    part: str | None  # None for BATCH_BEGINS
    host_s: float
    event: torch.cuda.Event | None
    action: str = ""  # Lightning's short name for what begins or ends


@dataclass(frozen=True)
class Boundary:
    """Where the measured steps begin or end."""

    n_marks: int  # that were made before
    energy_j: float | None  # that the GPUs had used by then; None when it is not known


@dataclass(frozen=True)
class StepFigures:
    """What the measured steps give. A share is a part of a step, from 0 to 1."""

    n_steps: int
    step_s: Spread
    parts_s: dict[str, Spread]
    shares: dict[str, float]
    copy_share: float  # a part of the share of `load`
    launch_s: float  # least time that Python needs for a step without loading
    samples_per_s: float  # over all processes
    power_w: float | None  # of one GPU
    joules_per_sample: float | None
    one_step_s: float  # for a forecast: one step
    epoch_extra_s: float  # for a forecast: what an epoch takes beyond its steps
    series_s: dict[str, list[float]]  # part -> seconds of each step


class Chronometer(PassThroughProfiler):
    """Times `n_steps` optimizer steps after WARMUP others.

    In the first batch it counts the FLOPs. The lean loop of a training tells it what begins and
    ends, so that steps are measured as they are in a training.

    Args:
        trainer: the one that this profiler belongs to.
        n_steps: optimizer steps to measure.
        accumulate: batches of one step.
    """

    times_lean_loop = True  # the lean loop calls `start` and `stop`

    def __init__(self, trainer: L.Trainer, n_steps: int, accumulate: int) -> None:
        super().__init__()
        self.trainer = trainer
        self.cuda = trainer.strategy.root_device.type == "cuda"
        self.measured_batches = range(WARMUP * accumulate, (WARMUP + n_steps) * accumulate)
        self.begin: Boundary | None = None
        self.end: Boundary | None = None
        self.marks: list[Mark] = []
        self.epoch_begins: list[int] = []  # number of marks when each epoch began
        self.n_batches = 0
        self.counting = ExitStack()
        self.flops = FlopCounterMode(display=False)
        self.saved_bytes: dict[int, int] = {}  # storage kept for backward, by its address

    @property
    def finished(self) -> bool:
        """Whether all steps are measured, so that the training may stop."""
        return self.end is not None

    # What Lightning calls

    def profile(self, action_name: str) -> AbstractContextManager:
        if action_name == "run_training_epoch":
            self.epoch_begins.append(len(self.marks))
        if short_name(action_name) in PART_OF_ACTION:
            return Profiler.profile(self, action_name)
        return NO_ACTION

    def start(self, action_name: str) -> None:
        action = short_name(action_name)
        if action == "train_dataloader_next":
            self.begin_batch()
        elif action == "training_step" and self.n_batches == 1:
            self.count_flops()
        if action in PART_OF_ACTION:
            self.mark(Kind.PART_BEGINS, PART_OF_ACTION[action], action)

    def stop(self, action_name: str) -> None:
        action = short_name(action_name)
        if action in PART_OF_ACTION:
            self.mark(Kind.PART_ENDS, PART_OF_ACTION[action], action)

    # What it records

    def begin_batch(self) -> None:
        self.counting.close()
        if self.n_batches == self.measured_batches.start:
            self.begin = self.boundary()
            if self.cuda:
                torch.cuda.reset_peak_memory_stats()
        elif self.n_batches == self.measured_batches.stop:
            self.end = self.boundary()
        self.n_batches += 1
        self.mark(Kind.BATCH_BEGINS)

    def boundary(self) -> Boundary:
        # Between two steps the device may be waited for
        if self.cuda:
            torch.cuda.synchronize()
        return Boundary(len(self.marks), energy_j())

    def mark(self, kind: Kind, part: str | None = None, action: str = "") -> None:
        event = None
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        self.marks.append(Mark(kind, part, time.perf_counter(), event, action))

    def count_flops(self) -> None:
        """Counts FLOPs and the tensors kept for backward until the next batch, uncompiled."""

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            self.saved_bytes[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.counting.enter_context(torch.compiler.set_stance("force_eager"))
        self.counting.enter_context(saved_tensors_hooks(keep, lambda tensor: tensor))
        self.counting.enter_context(self.flops)

    # What it computes afterwards

    def device_s(self, first: Mark, second: Mark) -> float:
        """Seconds between two moments on the device's clock; a CPU's is the host's."""
        if first.event and second.event:
            return first.event.elapsed_time(second.event) / 1000
        return host_s(first, second)

    @property
    def boundaries(self) -> tuple[Boundary, Boundary]:
        """Those of the measured steps, once all are measured."""
        assert self.begin
        assert self.end
        return self.begin, self.end

    def steps(self, on_host: bool = False) -> list[dict[str, float]]:
        """Seconds of each part of each measured step, on the device's clock or on the host's.

        A moment belongs to the innermost part that it lies in, else to `other`.
        So the parts of a step add up to it.
        """
        seconds_between = host_s if on_host else self.device_s
        begin, end = self.boundaries
        marks = self.marks[begin.n_marks : end.n_marks + 1]
        # Otherwise the task steps its optimizers by itself, and each batch is a step
        lightning_steps = any(mark.part == "optimizer" for mark in marks)
        steps: list[Any] = [Counter()]
        open_parts: list[str] = []
        for mark, following in pairwise(marks):
            if mark.kind is Kind.PART_BEGINS:
                open_parts.append(mark.part or "other")
            elif mark.kind is Kind.PART_ENDS:
                open_parts.pop()
            elif steps[-1] and ("optimizer" in steps[-1] or not lightning_steps):
                steps.append(Counter())
            part = open_parts[-1] if open_parts else "other"
            steps[-1][part] += seconds_between(mark, following)
        return steps

    def copies_s(self) -> float:
        """Seconds of the copies to the device, and of the hooks around them, in the measured steps."""
        begin, end = self.boundaries
        return sum(
            self.device_s(mark, following)
            for mark, following in pairwise(self.marks[begin.n_marks : end.n_marks + 1])
            if mark.kind is Kind.PART_BEGINS and mark.action == "batch_to_device"
        )

    def evaluation_s(self, part: str) -> float:
        """Seconds from the first to the last moment of `part`: "val" or "test"."""
        marks = [mark for mark in self.marks if mark.part == part]
        if not marks:
            return 0.0
        if self.cuda:
            torch.cuda.synchronize()
        return self.device_s(marks[0], marks[-1])

    def used_j(self) -> float | None:
        """Joules that the GPUs used in the measured steps.

        None when the driver does not know them, or counts GPUs that this training does not use.
        """
        all_gpus_are_used = self.cuda and torch.cuda.device_count() == self.trainer.num_devices
        begin, end = self.boundaries
        if not all_gpus_are_used or begin.energy_j is None or end.energy_j is None:
            return None
        return end.energy_j - begin.energy_j

    def figures(self, n_samples: int) -> StepFigures:
        """What the measured steps give.

        Args:
            n_samples: that this process saw in them.
        """
        steps = self.steps()
        whole_s = [sum(step.values()) for step in steps]
        total_s = sum(whole_s)
        series_s = {part: [step[part] for step in steps] for part in STEP_PARTS}
        host_steps = self.steps(on_host=True)
        n_devices = self.trainer.num_devices
        power_w = None
        joules_per_sample = None
        used_j = self.used_j()
        if used_j is not None:
            power_w = used_j / total_s / n_devices
            joules_per_sample = used_j / n_samples / n_devices
        # Only where an epoch begins within them do the steps show what it takes beyond a usual step
        begin, end = self.boundaries
        epochs = [i for i in self.epoch_begins if begin.n_marks < i <= end.n_marks]
        one_step_s = statistics.median(whole_s) if epochs else statistics.mean(whole_s)
        return StepFigures(
            n_steps=len(steps),
            step_s=Spread.of(whole_s),
            parts_s={part: Spread.of(times_s) for part, times_s in series_s.items()},
            shares={part: sum(times_s) / total_s for part, times_s in series_s.items()},
            copy_share=self.copies_s() / total_s,
            launch_s=min(sum(step.values()) - step["load"] for step in host_steps),
            samples_per_s=n_samples * data_ranks(self.trainer)[1] / total_s,
            power_w=power_w,
            joules_per_sample=joules_per_sample,
            one_step_s=one_step_s,
            epoch_extra_s=(total_s - len(steps) * one_step_s) / max(1, len(epochs)),
            series_s=series_s,
        )


def short_name(action_name: str) -> str:
    """`training_step` of `[Strategy]SingleDeviceStrategy.training_step`."""
    return action_name.rpartition(".")[2]


def host_s(first: Mark, second: Mark) -> float:
    return second.host_s - first.host_s
