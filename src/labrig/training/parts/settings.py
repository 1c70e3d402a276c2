"""Settings that depend on the machine: `auto`, and what follows from the number of processes.

A configuration is never changed in place. Each function takes one and returns a new one:
composed -> `resolve_auto` -> `scale_to_processes` -> `without_refused_fused`.
`resolve_settings` does all three. `apply_settings` then sets up this process.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import lightning
import lightning.pytorch as L
import torch
from lightning.pytorch.plugins import Precision
from omegaconf import DictConfig, ListConfig

from ...config.trainer_arguments import batches_per_step, duration_s, n_readers_of
from ...errors import LabError
from ...machine.gpu import cuda_of_driver, nvidia_driver
from ...machine.ranks import discover
from ...machine.resources import cores, unused_cores
from ...record.files.process import user
from ..lightning_internals import is_tested
from ..watch.profilers import enable_line_marks, require_profiler
from .build import import_target

# Slurm sets one of these in a job that has GPUs.
GPUS_OF_JOB = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
CUDA = ("gpu", "cuda")  # values of trainer.accelerator
BUILDS = {12: "cu126"}  # of torch, for drivers that run an older CUDA than the build of the index
RECORD = "lab-torch.txt"  # in the environment; lab.setup writes the build into it


@dataclass(frozen=True)
class ChosenSettings:
    """What was chosen for this machine, as attempts/<n>/start.json holds it."""

    accelerator: str  # cpu, gpu, ...
    devices: int  # processes on this node
    precision: str
    threads: int  # of each process
    matmul_precision: str
    device: str  # name of the GPU, or cpu
    deterministic: bool
    accumulate_grad_batches: int  # batches per optimizer step
    samples_per_step: int | None  # of all processes; None: the data has no batch_size


@dataclass(frozen=True)
class Settings:
    """A configuration without `auto`, and what was chosen in it."""

    config: DictConfig
    chosen: ChosenSettings


def resolve_settings(config: DictConfig, first_attempt: Mapping[str, Any]) -> Settings:
    """The settings of a training on this machine. `config` stays as it is.

    Args:
        config: the composed configuration.
        first_attempt: start.json of the run's first attempt, or empty. Its precision and number of
            threads are kept.
    """
    warn_of_another_torch()
    refuse_contradictions(config)
    has_chosen_threads = config.trainer.threads == "auto" and "OMP_NUM_THREADS" not in os.environ
    config = resolve_auto(config, first_attempt)
    if has_chosen_threads and int(config.trainer.devices) == 1:
        print_fewer_threads(config)
    refuse_clocks(config)
    config = scale_to_processes(config)
    config = without_refused_fused(config)
    require_profiler(config)
    return Settings(config, chosen_settings(config))


def print_fewer_threads(config: DictConfig) -> None:
    """One line where other programs use some of the cores: two such runs differ in their last digits.

    A number is told once to each user of a project.
    """
    n_threads = config.trainer.threads
    told = Path(config.paths.runs) / ".looked" / f"{user()}-threads-{n_threads}"
    if n_threads >= cores() or told.exists():
        return
    print(
        f"threads: {n_threads} of {cores()} cores; another number changes the last digits. "
        f"To pin it: trainer.threads={n_threads}"
    )
    with suppress(OSError):
        told.parent.mkdir(parents=True, exist_ok=True)
        told.touch()


def warn_of_another_torch() -> None:
    """The first process says it when torch is not of the build that was chosen."""
    warning = replaced_build()
    if warning and discover().rank == 0:
        print(f"lab: {warning}", file=sys.stderr, flush=True)


def refuse_contradictions(config: DictConfig) -> None:
    """Looks for settings that exclude each other."""
    if config.record.deterministic and config.speed.cudnn_benchmark is True:
        raise LabError(
            "record.deterministic=true and speed.cudnn_benchmark=true exclude each other: "
            "the fastest kernel can be another one in each run. Set one of them to false."
        )
    trainer = config.trainer
    tensor_parallel = config.speed.get("tensor_parallel", 1)
    for setting, is_set in (
        ("speed.fsdp=true", config.speed.fsdp),
        (f"speed.tensor_parallel={tensor_parallel}", tensor_parallel > 1),
    ):
        if is_set and trainer.get("strategy", "auto") != "auto":
            raise LabError(
                f"{setting} and trainer.strategy exclude each other: the first chooses FSDP2. "
                "Leave one of them out."
            )
    holds_parts = config.speed.fsdp or tensor_parallel > 1
    if config.checkpoint.get("sharded") and not holds_parts:
        raise LabError(
            "checkpoint.sharded=true needs processes that hold parts of the model: speed.fsdp=true, "
            "or speed.tensor_parallel. A strategy of trainer.strategy has an argument of its own for it"
        )
    if config.profile.get("kind") == "simple" and trainer.get("profiler"):
        raise LabError(
            "profile=simple and trainer.profiler exclude each other: both are Lightning's profiler. "
            "Leave one of them out."
        )
    if trainer.get("val_every_steps") and trainer.get("val_check_interval"):
        raise LabError(
            "trainer.val_every_steps and trainer.val_check_interval exclude each other: the first counts "
            "optimizer steps, the second batches. Leave one of them out."
        )
    of_plugins = precision_of_plugins(config)
    if of_plugins and trainer.precision not in ("auto", None):
        raise LabError(
            f"trainer.plugins sets the precision {of_plugins}, and trainer.precision "
            f"{trainer.precision}. Leave one of them out."
        )


def refuse_clocks(config: DictConfig) -> None:
    """Refuses to validate by the clock of several processes."""
    interval = config.trainer.get("val_check_interval")
    if duration_s(interval) is not None and n_processes_of(config) > 1:
        raise LabError(
            f"trainer.val_check_interval={interval} validates by the clock of each process, and "
            "processes that disagree wait for ever. Set a number of batches"
        )


def resolve_auto(config: DictConfig, first_attempt: Mapping[str, Any]) -> DictConfig:
    """A copy of `config` without `auto` in trainer.accelerator, devices, precision and threads."""
    config = copy.deepcopy(config)
    trainer = config.trainer
    if trainer.accelerator == "auto":
        trainer.accelerator = auto_accelerator()
    elif trainer.accelerator in CUDA and not torch.cuda.is_available():
        raise LabError(no_gpu_message(f"trainer.accelerator={trainer.accelerator}"))

    ranks = discover()
    if ranks.world_size > 1:
        # The launcher has started the processes already.
        if trainer.devices not in ("auto", ranks.local_size) and ranks.rank == 0:
            print(
                f"trainer.devices={trainer.devices} has no effect here: {ranks.local_size} processes "
                "were started on this node. Of a job: job.gpus, job.tasks_per_node",
                flush=True,
            )
        trainer.devices = ranks.local_size
    elif str(trainer.devices) == "-1":
        trainer.devices = max(1, torch.cuda.device_count()) if trainer.accelerator in CUDA else 1
    else:
        trainer.devices = 1 if trainer.devices == "auto" else int(trainer.devices)
    if trainer.precision is None:
        trainer.precision = "32-true"  # what Lightning takes
    elif trainer.precision == "auto":
        trainer.precision = (
            first_attempt.get("precision")
            or precision_of_plugins(config)
            or auto_precision(trainer.accelerator)
        )
    if trainer.threads == "auto":
        trainer.threads = auto_threads(int(trainer.devices), first_attempt.get("threads"))
    return config


def precision_of_plugins(config: DictConfig) -> str | None:
    """The precision that a plugin of `trainer.plugins` sets; None when none does."""
    nodes = config.trainer.get("plugins") or []
    for node in nodes if isinstance(nodes, ListConfig | list) else [nodes]:
        kind: Any = import_target("trainer.plugins", node["_target_"])
        if isinstance(kind, type) and issubclass(kind, Precision):
            return node.get("precision") or kind.precision
    return None


def auto_accelerator() -> str:
    """gpu if torch sees one, else cpu."""
    if torch.cuda.is_available():
        return "gpu"
    if any(os.environ.get(name) for name in GPUS_OF_JOB):
        raise LabError(no_gpu_message("this job has GPUs"))
    return "cpu"


def auto_precision(accelerator: str) -> str:
    """bf16-mixed on Ampere and newer, 16-mixed on older CUDA devices, 32-true elsewhere."""
    if accelerator not in CUDA:
        return "32-true"
    major, _ = torch.cuda.get_device_capability()
    return "bf16-mixed" if major >= 8 else "16-mixed"


def auto_threads(n_processes: int, before: int | None = None) -> int:
    """CPU threads of each process: what the user, the job script or a repetition exports.

    Else its share of the cores, or, for a process alone, the cores that nobody uses.

    Args:
        before: those of the run's first attempt. Another number would change the last bits of the
            weights, so they are kept where there are as many cores.
    """
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        return min(cores(), int(os.environ["OMP_NUM_THREADS"]))
    if before:
        return min(cores(), before)
    if n_processes == 1:
        return unused_cores()
    return max(1, cores() // n_processes)


def scale_to_processes(config: DictConfig) -> DictConfig:
    """A copy of `config` in which accumulation and learning rate follow the number of processes."""
    config = copy.deepcopy(config)
    n_readers = n_readers_of(config, n_processes_of(config))
    if config.batch["global"] is not None:
        config.trainer.accumulate_grad_batches = batches_per_step(config, n_processes_of(config))
    if config.batch.scale_lr:
        rates = [("optimizer", "lr"), ("schedule", "max_lr")]
        # All are read before one is changed: max_lr may be ${optimizer.lr}.
        old = {pair: config[pair[0]][pair[1]] for pair in rates if pair[1] in config[pair[0]]}
        for (section, name), rate in old.items():
            config[section][name] = rate * n_readers
    return config


def without_refused_fused(config: DictConfig) -> DictConfig:
    """A copy of `config` without optimizer.fused, where Lightning refuses it; a line says so.

    It refuses a fused optimizer in mixed precision with clipping. With a tested release
    `fused_gradients_clipped` does both.
    """
    mixed = "mixed" in str(config.trainer.precision)
    fused = config.get("optimizer", {}).get("fused")
    if is_tested() or not (mixed and fused and config.trainer.gradient_clip_val):
        return config
    config = copy.deepcopy(config)
    config.optimizer.fused = False
    print(
        f"optimizer.fused is off: Lightning {lightning.__version__} was not tested with "
        f"{config.trainer.precision} and trainer.gradient_clip_val.",
        flush=True,
    )
    return config


def chosen_settings(config: DictConfig) -> ChosenSettings:
    """What the record holds of a configuration without `auto`."""
    trainer = config.trainer
    samples_per_step = None
    if config.data.get("batch_size"):
        n_readers = n_readers_of(config, n_processes_of(config))
        samples_per_batch = config.data.batch_size * n_readers
        samples_per_step = samples_per_batch * trainer.accumulate_grad_batches
    return ChosenSettings(
        accelerator=trainer.accelerator,
        devices=trainer.devices,
        precision=trainer.precision,
        threads=trainer.threads,
        matmul_precision=trainer.matmul_precision,
        device=torch.cuda.get_device_name() if trainer.accelerator in CUDA else "cpu",
        deterministic=config.record.deterministic,
        accumulate_grad_batches=trainer.accumulate_grad_batches,
        samples_per_step=samples_per_step,
    )


def apply_settings(config: DictConfig) -> None:
    """Sets up this process: seed, threads, precision of products, kernels.

    To be called before parts are built.

    Args:
        config: a configuration without `auto`.
    """
    deterministic = config.record.deterministic
    torch.backends.cudnn.benchmark = bool(config.speed.cudnn_benchmark) and not deterministic
    if deterministic:
        make_deterministic()
    torch.set_num_threads(int(config.trainer.threads))
    torch.set_float32_matmul_precision(config.trainer.matmul_precision)
    L.seed_everything(config.seed, workers=True, verbose=False)
    enable_line_marks(config)


def make_deterministic() -> None:
    """Allows only kernels that give the same bits each time; other operations raise an error.

    torch's documentation has a page about it: Reproducibility.
    """
    # cuBLAS reads this when it starts, which is later.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True


def no_gpu_message(reason: str) -> str:
    """What is known of driver and torch, and what to do next."""
    driver = nvidia_driver() or "no NVIDIA driver is loaded on this machine"
    build = "CPU only"
    remedy = "Install a CUDA build of torch: TORCH=cu126 make setup"
    if torch.version.cuda:
        build = f"CUDA {torch.version.cuda}"
        remedy = "Ask the scheduler for a GPU."
        newest = cuda_of_driver()
        if newest and newest[0] < int(torch.version.cuda.partition(".")[0]):
            remedy = (
                f"The driver is too old for this torch: it runs CUDA {newest[0]}.{newest[1]} at most.\n"
                "Ask for a newer driver"
            )
            if newest[0] in BUILDS:
                remedy += f", or install a build for it: TORCH={BUILDS[newest[0]]} make setup"
    return (
        f"{reason}, but torch sees no GPU.\n"
        f"  driver: {driver}\n"
        f"  torch:  {torch.__version__} ({build})\n"
        f"{remedy}\n"
        "To train without a GPU: trainer=cpu"
    )


def n_processes_of(config: DictConfig) -> int:
    """Processes of a training on all nodes; `config` has no `auto`."""
    return int(config.trainer.devices) * discover().n_nodes


def replaced_build() -> str | None:
    """What to say and to type when torch is of another build now; None when it is not."""
    record = Path(sys.prefix) / RECORD
    chosen = record.read_text(encoding="utf-8").strip() if record.exists() else ""
    if not chosen:
        return None
    installed = metadata.version("torch")
    if installed.endswith(f"+{chosen}"):
        return None
    return (
        f"torch {installed} is not of the build {chosen} that make setup had chosen: uv add, "
        "uv sync and uv run replace it.\nTo get it back: make setup. To keep this one: "
        "make setup TORCH=default"
    )
