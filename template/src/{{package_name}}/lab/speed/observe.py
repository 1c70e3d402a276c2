# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What a training tells of its own speed: health at each logging interval, and the profilers behind `profile=`."""

from __future__ import annotations

import cProfile
import importlib.util
import inspect
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.profilers import SimpleProfiler
from omegaconf import DictConfig

from ..errors import Failed, LabError
from ..fit.metrics import size_of
from ..project import PACKAGE
from ..record.environment import energy_j

WAITS, UNUSED = 0.5, 20  # more than this share of the time waiting for data, or a GPU used less than this %, is told


class Health(L.Callback):
    """A row of speed.jsonl per logging interval, also to the loggers; stops at a metric that cannot be what it says.

    speed/samples_per_s (of all processes), speed/data_wait (share of the time in which the loop waited for a batch),
    speed/memory_gb (peak, of the device or of this process), on CUDA speed/gpu_use (%) and speed/power_w (of the GPUs
    that this process sees). Validation, and what happens between two epochs, is not counted.

    Args:
        folder: the run directory.
        bounds: name of a metric (after the last /) -> [low, high].
    """

    def __init__(self, folder: Path, bounds: dict[str, Any]) -> None:
        self.file, self.bounds, self.warm, self.told = folder / "speed.jsonl", bounds, False, False

    def begin(self, *_: Any) -> None:
        self.since_s, self.since_j, self.wait_s, self.n_samples = time.perf_counter(), energy_j(), 0.0, 0

    on_train_epoch_start = begin

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        loop = trainer.fit_loop.epoch_loop
        loop._on_before_fetch = partial(self.fetch, loop._on_before_fetch, -1)
        loop._on_after_fetch = partial(self.fetch, loop._on_after_fetch, 1)
        self.begin()

    def fetch(self, hook: Callable[[], None], sign: int) -> None:
        hook()
        self.wait_s += sign * time.perf_counter()

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        self.n_samples += size_of(batch)
        loop = trainer.fit_loop.epoch_loop
        step = loop._batches_that_stepped + 1
        if step % trainer.log_every_n_steps == 0 and not loop._should_accumulate():
            if trainer.is_global_zero:
                self.report(trainer, step)
            self.check(trainer)

    def report(self, trainer: L.Trainer, step: int) -> None:
        seconds, device = time.perf_counter() - self.since_s, trainer.strategy.root_device
        on_gpu, n_bytes = device.type == "cuda", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        values = {"samples_per_s": self.n_samples * trainer.world_size / seconds, "data_wait": self.wait_s / seconds}
        values["memory_gb"] = (torch.cuda.max_memory_reserved(device) if on_gpu else n_bytes) / 1e9
        with suppress(ModuleNotFoundError, RuntimeError):  # NVML does not answer
            values |= {"gpu_use": torch.cuda.utilization(device)} if on_gpu else {}
        if self.since_j is not None:
            values["power_w"] = (energy_j() - self.since_j) / seconds
        values = {f"speed/{name}": round(value, 4) for name, value in values.items()}
        row = {"step": step, "epoch": trainer.current_epoch, "time_unix_s": round(time.time(), 3)} | values
        with open(self.file, "a", encoding="utf-8") as file:  # not metrics.jsonl, which repeats bit for bit
            file.write(json.dumps(row) + "\n")
        for logger in trainer.loggers[1:]:
            logger.log_metrics(values, step=step - 1)
        wait, use = values["speed/data_wait"], values.get("speed/gpu_use", 100)
        if self.warm and not self.told and (wait > WAITS or use < UNUSED):
            gpu, self.told = f", the GPU is used {use:.0f} %" if on_gpu else "", True
            print(f"speed: {wait:.0%} of the time goes by waiting for data{gpu} (step {step}). What is slow: lab bench")
        self.warm = True

    def check(self, trainer: L.Trainer, *_: Any) -> None:
        for name, value in trainer.callback_metrics.items():
            short = name.rpartition("/")[2]
            low, high = self.bounds.get(short) or (-torch.inf, torch.inf)
            if value < low - 1e-4 or value > high + 1e-4:  # a perfect score of float32 may be 1.0000001
                outside = f"{name} is {float(value):.6g}, outside of log.bounds.{short}=[{low},{high}]"
                cause = "a sum was made for a mean: return the value from the step, or self.log(..., sync_dist=True)"
                raise Failed(f"{outside}: {cause}. If it has another scale: log.bounds.{short}=[0,100]")
        self.begin()

    on_validation_end = check


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
            self.running.callback(tell, file, how)
            self.step = getattr(self.running.enter_context(profiler(file, trainer, self.settings)), "step", None)

    def on_train_batch_end(self, *_: Any) -> None:
        if self.step:
            self.step()

    def on_train_end(self, *_: Any) -> None:
        self.running.close()
        self.step = None

    on_exception = on_train_end


def tell(file: Path, how: str) -> None:
    missing = "profile: nothing was recorded, the training ended too soon; lower profile.wait_steps"
    print(f"profile: {file}\n  open it: {how.format(file)}" if file.exists() else missing, flush=True)


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
    import line_profiler

    profiler, task = line_profiler.profile._profile, trainer.lightning_module
    dataset = getattr(trainer.train_dataloader, "dataset", None)
    places = [(trainer.datamodule, "on_after_batch_transfer"), (dataset, "transform"), (dataset, "__getitems__")]
    places += [(part, "forward") for part in task.modules() if type(part).__module__.startswith(f"{PACKAGE}.")]
    for owner, name in [(task, "training_step"), *places]:
        if inspect.isroutine(function := getattr(owner, name, None)):
            setattr(owner, name, profiler(function))
    yield
    with open(file, "w", encoding="utf-8") as stream:
        profiler.print_stats(stream=stream, stripzeros=True)


def allocations(file: Path, trainer: L.Trainer, settings: DictConfig) -> AbstractContextManager:
    import memray

    return memray.Tracker(destination=memray.FileDestination(file, overwrite=True))


@contextmanager
def device_memory(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    yield
    torch.cuda.memory._dump_snapshot(str(file))
    torch.cuda.memory._record_memory_history(enabled=None)


@contextmanager
def functions(file: Path, trainer: L.Trainer, settings: DictConfig) -> Iterator[None]:
    with cProfile.Profile() as profiler:
        yield
    profiler.dump_stats(file)


KINDS = {  # the profiler, the ending of its file, how to open it
    "simple": (simple, ".txt", "less -S {}"),
    "torch": (operations, ".json.gz", "drop it on https://ui.perfetto.dev, which keeps it on your machine"),
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
        raise LabError(f"profile={kind} needs the package {package}: uv add {package}, or pip install {package}")
    if kind == "line":
        from line_profiler import LineProfiler, profile

        profile._profile = LineProfiler()  # given one, it writes nothing by itself when Python ends
        profile.enable()
    return [Profile(kind, config.profile, folder)] if kind else []


def watch(trainer: L.Trainer, config: DictConfig, profile: list[L.Callback], folder: Path) -> L.Trainer:
    """Adds health (after the means, whose reading waits for the device) and the profiler (first of all) to a Trainer."""
    trainer.callbacks.insert(2, Health(folder, config.log.bounds))
    trainer.callbacks[:0] = profile
    return trainer
