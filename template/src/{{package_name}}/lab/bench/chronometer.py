# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A Lightning profiler that records a time at the start and end of each part of a step."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from typing import Any, NamedTuple

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import Profiler
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ..machine.gpu import energy_j
from ..training.lightning_internals import NoProfiler

WARMUP, EVALUATED = (
    10,
    20,
)  # steps before the measured ones; batches of validation and test that are timed


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, least, and the distance of the quartiles."""
    low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
    return {"median": middle, "min": min(seconds), "spread": high - low}


PARTS = {  # by the names that Lightning gives to what it does
    "train_dataloader_next": "load", "batch_to_device": "load", "training_step": "forward", "backward": "backward",
    "optimizer_step": "optimizer", "val_next": "val", "validation_step": "val", "test_next": "test", "test_step": "test",
}  # fmt: skip
SHOWN = ("load", "forward", "backward", "optimizer", "other")


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
        self.edges: list[
            tuple[int, float | None]
        ] = []  # at those: number of marks, joules used by then
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
        is_part = action_name.rpartition(".")[2] in PARTS
        return Profiler.profile(self, action_name) if is_part else self.nothing

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
        if self.n_batches in (
            self.first,
            self.last,
        ):  # between two steps: here one may wait for the device
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
        return (
            begin.event.elapsed_time(end.event) / 1000 if self.cuda else end.host_s - begin.host_s
        )

    def steps(self, host: bool = False) -> list[Counter]:
        """Seconds of each part of each measured step, by the device's clock or the host's; a moment belongs to the
        innermost part that it lies in, else to `other`, so the parts of a step add up to the whole of it."""
        (first, _), (last, _) = self.edges
        marks = self.marks[first : last + 1]
        stepping = any(
            mark.part == "optimizer" for mark in marks
        )  # False: the task calls its optimizers by itself
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
        alone = (
            self.cuda and torch.cuda.device_count() == n_devices
        )  # else the energy of others would be counted
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
            "times_s": {
                "step": step_s,
                "epoch": (sum(whole_s) - len(steps) * step_s) / max(1, n_epochs),
            },
            "series_s": series_s,
        }
