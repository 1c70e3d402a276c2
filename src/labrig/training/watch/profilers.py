"""Profilers behind `profile=`: where the time and the memory of the first steps go.

A profiler is a function `(file, subject, settings)` that gives a context. It records while the
context is open, and writes the file when it closes. A method `step` is called after each batch.
The subject is the Trainer, or the module of a program, whose rows count as batches.
"""

from __future__ import annotations

import cProfile
import importlib.util
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import SimpleProfiler
from omegaconf import DictConfig

from ...errors import require_package
from ...machine.text_table import TextColumn, text_table
from ...project import this_project
from ..lightning_internals_torch import (
    collect_marked_lines,
    cuda_memory_recorded,
    forget_marked_lines,
    profiler_of_marked_lines,
)

TABLE_ROWS = 12  # operations in the table of profile=torch
Subject = L.Trainer | ModuleType


@contextmanager
def record_actions(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    """profile=simple: the time of each of Lightning's actions."""
    profiler_before = trainer.profiler
    trainer.profiler = SimpleProfiler()
    yield
    file.write_text(trainer.profiler.summary(), encoding="utf-8")
    trainer.profiler = profiler_before


def record_operations(file: Path, subject: Subject, settings: DictConfig) -> torch.profiler.profile:
    """profile=torch: operations and kernels of `active_steps` batches."""
    # Kineto would print lines of its own.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    schedule = torch.profiler.schedule(
        wait=settings.wait_steps,
        warmup=settings.warmup_steps,
        active=settings.active_steps,
        repeat=1,
    )
    return torch.profiler.profile(schedule=schedule, on_trace_ready=partial(write_trace, file))


def write_trace(file: Path, profiler: torch.profiler.profile) -> None:
    """Writes the trace, and prints the most expensive operations as a table of 80 columns."""
    profiler.export_chrome_trace(str(file))
    operations = profiler.key_averages()
    clock = "cpu"
    if any(operation.self_device_time_total for operation in operations):
        clock = "device"

    def self_ms(operation: Any) -> float:
        return getattr(operation, f"self_{clock}_time_total") / 1000

    slowest = sorted(operations, key=self_ms, reverse=True)[:TABLE_ROWS]
    times_ms = [f"{self_ms(operation):.2f}" for operation in slowest]
    columns = [
        TextColumn("operation", [operation.key[:48] for operation in slowest], 48),
        TextColumn("calls", [str(operation.count) for operation in slowest], 7, on_right=True),
        TextColumn(f"{clock} ms", times_ms, 10, on_right=True),
    ]
    print("\n".join(text_table(columns, gap=" ")))


@contextmanager
def record_lines(file: Path, subject: Subject, settings: DictConfig) -> Iterator[None]:
    """profile=line: lines of `line_functions` and of functions under line_profiler's `@profile`."""
    profiler = profiler_of_marked_lines()
    functions = line_functions(subject)
    for owner, name, function in functions:
        setattr(owner, name, profiler(function))
    yield
    for owner, name, function in functions:
        setattr(owner, name, function)
    with open(file, "w", encoding="utf-8") as stream:
        profiler.print_stats(stream=stream, stripzeros=True)
    forget_marked_lines()


def line_functions(subject: Subject) -> list[tuple[Any, str, Callable[..., Any]]]:
    """(owner, name, function) of training_step, each forward of the project, and the data path; of
    a program all its functions."""
    if isinstance(subject, ModuleType):
        functions = inspect.getmembers(subject, inspect.isfunction)
        own_functions = [pair for pair in functions if pair[1].__module__ == subject.__name__]
        return [(subject, name, function) for name, function in own_functions]
    trainer = subject
    task = trainer.lightning_module
    dataset = getattr(trainer.train_dataloader, "dataset", None)
    package = this_project().package
    own_modules = [
        module for module in task.modules() if type(module).__module__.startswith(f"{package}.")
    ]
    places = [
        (task, "training_step"),
        (trainer.datamodule, "on_after_batch_transfer"),
        (dataset, "transform"),
        (dataset, "__getitems__"),
        *[(module, "forward") for module in own_modules],
    ]
    functions: list[Any] = [(owner, name, getattr(owner, name, None)) for owner, name in places]
    return [place for place in functions if inspect.isroutine(place[2])]


def record_allocations(
    file: Path, subject: Subject, settings: DictConfig
) -> AbstractContextManager:
    """profile=memory on the CPU: every allocation of the process."""
    import memray

    return memray.Tracker(destination=memray.FileDestination(file, overwrite=True))


@contextmanager
def record_cuda_allocations(file: Path, subject: Subject, settings: DictConfig) -> Iterator[None]:
    """profile=memory on a GPU, by the functions of torch's "Understanding CUDA Memory Usage"."""
    with cuda_memory_recorded(file):
        yield


@contextmanager
def record_functions(file: Path, subject: Subject, settings: DictConfig) -> Iterator[None]:
    """profile=cprofile: Python functions, all in one file.

    Lightning's AdvancedProfiler writes one for each action, without the actions inside it.
    """
    with cProfile.Profile() as profiler:
        yield
    profiler.dump_stats(file)


@dataclass(frozen=True)
class Profiler:
    """One kind of profiler."""

    record: Callable[[Path, Any, DictConfig], AbstractContextManager]
    ending: str  # of its file
    how_to_open: str  # {} is the file
    package: str | None = None  # that it needs


PROFILERS = {
    "simple": Profiler(record_actions, ".txt", "less -S {}"),
    "torch": Profiler(
        record_operations,
        ".json.gz",
        "drag it to https://ui.perfetto.dev (the file stays on your machine)",
    ),
    "line": Profiler(record_lines, ".txt", "less -S {}", package="line_profiler"),
    "memory": Profiler(record_allocations, ".bin", "memray flamegraph {}", package="memray"),
    "cuda-memory": Profiler(
        record_cuda_allocations, ".pickle", "drag it to https://pytorch.org/memory_viz"
    ),
    "cprofile": Profiler(record_functions, ".prof", "snakeviz {}"),
}


class ProfileCallback(L.Callback):
    """Runs one profiler from the first step of a training to its end, on the chosen ranks.

    Args:
        kind: a name of PROFILERS.
        settings: the section `profile`.
        folder: where its file goes, as <kind>-rank<n><ending>.
    """

    def __init__(self, kind: str, settings: DictConfig, folder: Path) -> None:
        self.kind = kind
        self.settings = settings
        self.folder = folder
        self.recording = ExitStack()
        self.step: Callable[[], None] | None = None

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        rank = trainer.global_rank
        if rank in self.settings.ranks:
            self.step = start_profiler(
                self.recording, self.kind, self.settings, self.folder, rank, trainer
            )

    def on_train_batch_end(self, *_: Any) -> None:
        if self.step:
            self.step()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.recording.close()
        self.step = None

    on_exception = on_train_end


def start_profiler(
    stack: ExitStack, kind: str, settings: DictConfig, folder: Path, rank: int, subject: Subject
) -> Callable[[], None] | None:
    """Records until `stack` closes; returns what is to be called after each batch, if anything."""
    profiler = PROFILERS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{kind}-rank{rank}{profiler.ending}"
    # Called last, when the profiler has written its file.
    stack.callback(print_file, file, profiler.how_to_open)
    context = stack.enter_context(profiler.record(file, subject, settings))
    return getattr(context, "step", None)


def print_file(file: Path, how_to_open: str) -> None:
    if file.exists():
        print(f"profile: {file}\n  open it: {how_to_open.format(file)}", flush=True)
    else:
        print(
            "profile: nothing was recorded, because the training ended too soon. "
            "Set a smaller profile.wait_steps.",
            flush=True,
        )


def profiler_kind(config: DictConfig) -> str | None:
    """The name of the chosen profiler in PROFILERS, or None; trainer.accelerator is not `auto`."""
    kind = config.profile.get("kind")
    if kind == "memory" and config.trainer.accelerator in ("gpu", "cuda"):
        return "cuda-memory"
    return kind


def require_profiler(config: DictConfig) -> None:
    """Raises a LabError if the package of the chosen profiler is not installed."""
    kind = profiler_kind(config)
    package = PROFILERS[kind].package if kind else None
    if package:
        require_package(package, f"profile={kind}")


def enable_line_marks(config: DictConfig) -> None:
    """With profile=line: functions under line_profiler's `@profile` count, if imported later."""
    if profiler_kind(config) != "line" or importlib.util.find_spec("line_profiler") is None:
        return
    collect_marked_lines()


def build_profiler(config: DictConfig, folder: Path) -> list[L.Callback]:
    """The callback of the chosen profiler, or an empty list."""
    kind = profiler_kind(config)
    return [ProfileCallback(kind, config.profile, folder)] if kind else []
