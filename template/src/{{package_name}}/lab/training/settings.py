# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Settings that depend on the machine: `auto` replaced, batch size and learning rate for the number of processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig

from .. import env
from ..config.batch import batches_per_step
from ..errors import LabError
from ..machine.cpu import cores
from ..machine.ranks import discover

GPU_WAS_ASKED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # set in a job that was given some


def resolve_auto(config: DictConfig, earlier: dict[str, Any]) -> dict[str, Any]:
    """Applies seed, threads and float32 precision to this process, and returns what was chosen.

    Args:
        config: the composed configuration; `trainer.accelerator`, `precision` and `devices` are replaced by the choice.
        earlier: what the first attempt of this run chose, or empty; its precision is kept.

    Raises:
        LabError: a GPU was asked for, by the configuration or by the job, and none is seen.
    """
    trainer = config.trainer
    if trainer.accelerator == "auto":
        trainer.accelerator = "gpu" if torch.cuda.is_available() else "cpu"
        if trainer.accelerator == "cpu" and any(os.environ.get(name) for name in GPU_WAS_ASKED):
            raise LabError(no_gpu("this job has GPUs"))
    elif trainer.accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise LabError(no_gpu(f"trainer.accelerator={trainer.accelerator}"))
    ranks = discover()
    if ranks.world_size > 1:  # the launcher has decided
        trainer.devices = ranks.local_size
    elif trainer.devices == "auto":
        trainer.devices = 1
    if trainer.precision == "auto":
        trainer.precision = earlier.get("precision") or auto_precision(trainer.accelerator)
    if trainer.threads == "auto":
        share = max(1, cores() // int(trainer.devices))
        trainer.threads = (
            min(cores(), int(os.environ["OMP_NUM_THREADS"])) if env.JOB in os.environ else share
        )
    torch.set_num_threads(int(trainer.threads))
    torch.set_float32_matmul_precision(trainer.matmul_precision)
    L.seed_everything(config.seed, workers=True, verbose=False)
    if config.record.deterministic:
        make_deterministic()
    if (
        "mixed" in str(trainer.precision)
        and trainer.gradient_clip_val
        and config.get("optimizer", {}).get("fused")
    ):
        config.optimizer.fused = (
            False  # it unscales gradients itself, too late for clipping; refused for bf16 too
        )
        print(
            f"optimizer.fused is off: it is refused with {trainer.precision} and gradient clipping",
            flush=True,
        )
    chosen = {
        name: trainer[name]
        for name in ("accelerator", "devices", "precision", "threads", "matmul_precision")
    }
    device = torch.cuda.get_device_name() if trainer.accelerator in ("gpu", "cuda") else "cpu"
    return chosen | {"device": device, "deterministic": config.record.deterministic}


def auto_precision(accelerator: str) -> str:
    """bf16-mixed on Ampere and newer, 16-mixed on older CUDA devices, 32-true elsewhere."""
    if accelerator not in ("gpu", "cuda"):
        return "32-true"
    return "bf16-mixed" if torch.cuda.get_device_capability()[0] >= 8 else "16-mixed"


def make_deterministic() -> None:
    """Only kernels that give the same bits each time; an operation without one raises (torch's notes on reproducibility)."""
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # read when cuBLAS starts, which is later
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def no_gpu(why: str) -> str:
    driver = Path("/proc/driver/nvidia/version")
    found = (
        driver.read_text().splitlines()[0]
        if driver.exists()
        else "no NVIDIA driver is loaded on this machine"
    )
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    remedy = "Ask the scheduler for a GPU, or compare the driver with the CUDA version of this torch build."
    if not torch.version.cuda:
        remedy = "Install a CUDA build of torch: TORCH=cu126 make setup"
    return (
        f"{why}, but torch sees none.\n  driver: {found}\n  torch:  {torch.__version__} ({build})\n"
        f"{remedy}\nWithout a GPU: trainer=cpu"
    )


def scale_to_processes(config: DictConfig) -> dict[str, Any]:
    """Settings that follow from the number of processes, written into `config`; to be called before parts are built.

    Returns:
        What was chosen, for the record.

    Raises:
        LabError: two settings contradict each other.
    """
    trainer, batch, deterministic = config.trainer, config.batch, config.record.deterministic
    n_processes, n_samples = n_processes_of(config), config.data.get("batch_size")
    if batch["global"] is not None:
        trainer.accumulate_grad_batches = batches_per_step(config, n_processes)
    for section, name in (("optimizer", "lr"), ("schedule", "max_lr")) if batch.scale_lr else ():
        if name in config[section]:
            config[section][name] *= n_processes
    if deterministic and config.speed.cudnn_benchmark is True:
        raise LabError(
            "speed.cudnn_benchmark takes the fastest kernel, record.deterministic the same: choose one"
        )
    torch.backends.cudnn.benchmark = not deterministic and config.speed.cudnn_benchmark in (
        True,
        "auto",
    )
    for compiler in ("TORCHINDUCTOR", "TRITON") if config.paths.scratch else ():
        os.environ[f"{compiler}_CACHE_DIR"] = f"{config.paths.scratch}/compiled/{compiler.lower()}"
    n_batches = trainer.accumulate_grad_batches
    return {
        "accumulate_grad_batches": n_batches,
        "samples_per_step": n_samples and n_samples * n_processes * n_batches,
    }


def n_processes_of(config: DictConfig) -> int:
    return int(config.trainer.devices) * discover().n_nodes
