# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Profilers behind `profile=`: where the time and the memory of the first steps go."""

from __future__ import annotations

import cProfile
import importlib.util
import inspect
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import SimpleProfiler
from omegaconf import DictConfig

from ..errors import LabError
from ..project import PACKAGE
from .lightning_internals_torch import (
    collect_marked_lines,
    cuda_memory_recorded,
    forget_marked_lines,
    profiler_of_marked_lines,
)


class Profile(L.Callback):
    """Runs one profiler from the first step of a training to its end, on the ranks of `profile.ranks`.

    Args:
        kind: a name of KINDS.
        settings: the section `profile`.
        folder: where its file goes, as <kind>-rank<n><ending>.
    """

    def __init__(self, kind: str, settings: DictConfig, folder: Path) -> None:
        self.kind, self.settings, self.folder = kind, settings, folder
        self.running, self.step = ExitStack(), None

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_rank in self.settings.ranks:
            self.folder.mkdir(parents=True, exist_ok=True)
            profiler, ending, how = KINDS[self.kind]
            file = self.folder / f"{self.kind}-rank{trainer.global_rank}{ending}"
            self.running.callback(print_path, file, how)
            self.step = getattr(
                self.running.enter_context(profiler(file, trainer, self.settings)), "step", None
            )

    def on_train_batch_end(self, *_: Any) -> None:
        if self.step:
            self.step()

    def on_train_end(self, *_: Any) -> None:
        self.running.close()
        self.step = None

    on_exception = on_train_end


def print_path(file: Path, how: str) -> None:
    missing = "profile: nothing was recorded, the training ended too soon; lower profile.wait_steps"
    print(
        f"profile: {file}\n  open it: {how.format(file)}" if file.exists() else missing, flush=True
    )


@contextmanager
def simple(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    before, trainer.profiler = trainer.profiler, SimpleProfiler()
    yield
    file.write_text(trainer.profiler.summary(), encoding="utf-8")
    trainer.profiler = before


def operations(file: Path, trainer: L.Trainer, settings: DictConfig) -> torch.profiler.profile:
    wait, warmup, active = settings.wait_steps, settings.warmup_steps, settings.active_steps
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would print lines of its own
    schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    return torch.profiler.profile(schedule=schedule, on_trace_ready=partial(write_trace, file))


def write_trace(file: Path, profiler: torch.profiler.profile) -> None:
    """The trace as a file, and its most expensive operations as a table of 80 columns."""
    profiler.export_chrome_trace(str(file))
    events = profiler.key_averages()
    clock = "device" if any(event.self_device_time_total for event in events) else "cpu"
    print(f"{'operation':<48} {'calls':>7} {clock + ' ms':>10}")
    spent = {event: getattr(event, f"self_{clock}_time_total") / 1000 for event in events}
    for event in sorted(spent, key=spent.get, reverse=True)[:12]:
        print(f"{event.key[:48]:<48} {event.count:>7} {spent[event]:>10.2f}")


@contextmanager
def lines(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    """Lines of training_step, of every forward that the project wrote, of the data path in this process, and of
    functions under line_profiler's `@profile`, which does nothing otherwise."""
    profiler, task = profiler_of_marked_lines(), trainer.lightning_module
    dataset = getattr(trainer.train_dataloader, "dataset", None)
    places = [
        (trainer.datamodule, "on_after_batch_transfer"),
        (dataset, "transform"),
        (dataset, "__getitems__"),
    ]
    places += [
        (part, "forward")
        for part in task.modules()
        if type(part).__module__.startswith(f"{PACKAGE}.")
    ]
    for owner, name in [(task, "training_step"), *places]:
        if inspect.isroutine(function := getattr(owner, name, None)):
            setattr(owner, name, profiler(function))
    yield
    with open(file, "w", encoding="utf-8") as stream:
        profiler.print_stats(stream=stream, stripzeros=True)
    forget_marked_lines()


def allocations(file: Path, trainer: L.Trainer, settings: DictConfig) -> AbstractContextManager:
    import memray

    return memray.Tracker(destination=memray.FileDestination(file, overwrite=True))


@contextmanager
def device_memory(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    with cuda_memory_recorded(file):
        yield


@contextmanager
def functions(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    with cProfile.Profile() as profiler:
        yield
    profiler.dump_stats(file)


KINDS = {  # the profiler, the ending of its file, how to open it
    "simple": (simple, ".txt", "less -S {}"),
    "torch": (
        operations,
        ".json.gz",
        "drop it on https://ui.perfetto.dev, which keeps it on your machine",
    ),
    "line": (lines, ".txt", "less -S {}"),
    "memory": (allocations, ".bin", "memray flamegraph {}"),
    "cuda-memory": (device_memory, ".pickle", "drop it on https://pytorch.org/memory_viz"),
    "cprofile": (functions, ".prof", "snakeviz {}"),
}


def build_profile(config: DictConfig, folder: Path) -> list[L.Callback]:
    """The profiler that `profile=` chose, or none. To be called before the parts: `@profile` counts from then on.

    Raises:
        LabError: it needs a package that is not installed.
    """
    kind = config.profile.get("kind")
    if kind == "memory" and config.trainer.accelerator in ("gpu", "cuda"):
        kind = "cuda-memory"
    package = {"line": "line_profiler", "memory": "memray"}.get(kind)
    if package and importlib.util.find_spec(package) is None:
        raise LabError(
            f"profile={kind} needs the package {package}: uv add {package}, or pip install {package}"
        )
    if kind == "line":
        collect_marked_lines()
    return [Profile(kind, config.profile, folder)] if kind else []
