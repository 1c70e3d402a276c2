# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What `auto` means on this machine: device, precision, threads. Chosen once, recorded, kept by later attempts."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from ..errors import LabError
from ..machine.affinity import cores
from ..machine.ranks import Ranks

GPU_WAS_ASKED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # set in a job that was given some


def settle(config: DictConfig, earlier: dict[str, Any], ranks: Ranks | None = None) -> dict[str, Any]:
    """Applies seed, threads and float32 precision to this process, and returns what was chosen.

    Args:
        config: the composed configuration; `trainer.accelerator`, `precision` and `devices` are replaced by the choice.
        earlier: what the first attempt of this run chose, or empty; its precision is kept.
        ranks: of this process, when a launcher started it; then the launcher's number of devices counts.

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
    if ranks and ranks.world_size > 1:
        trainer.devices = ranks.local_size
    elif trainer.devices == "auto":
        trainer.devices = 1
    if trainer.precision == "auto":
        trainer.precision = earlier.get("precision") or auto_precision(trainer.accelerator)
    if trainer.threads == "auto":
        share = max(1, cores() // int(trainer.devices))
        trainer.threads = min(cores(), int(os.environ["OMP_NUM_THREADS"])) if "LAB_JOB" in os.environ else share
    torch.set_num_threads(int(trainer.threads))
    torch.set_float32_matmul_precision(trainer.matmul_precision)
    seed_everything(config.seed)
    if config.record.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at its first use
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)  # an operation that has no deterministic kernel is an error
    on_gpu = trainer.accelerator in ("gpu", "cuda")
    return {
        "accelerator": trainer.accelerator,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "devices": trainer.devices,
        "precision": trainer.precision,
        "threads": trainer.threads,
        "matmul_precision": trainer.matmul_precision,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def auto_precision(accelerator: str) -> str:
    """bf16-mixed on Ampere and newer, 16-mixed on older CUDA devices, 32-true elsewhere."""
    if accelerator not in ("gpu", "cuda"):
        return "32-true"
    return "bf16-mixed" if torch.cuda.get_device_capability()[0] >= 8 else "16-mixed"


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy and torch (all devices); every rank alike, so that weights start equal."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (other libraries draw from this one)
    torch.manual_seed(seed)
    os.environ["PL_GLOBAL_SEED"] = str(seed)  # Lightning derives loader workers' seeds from it


def no_gpu(why: str) -> str:
    driver = Path("/proc/driver/nvidia/version")
    found = (
        driver.read_text().splitlines()[0]
        if driver.exists()
        else "no NVIDIA driver is loaded on this machine"
    )
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    remedy = (
        "Install a CUDA build of torch: TORCH=cu126 make setup"
        if not torch.version.cuda
        else "Ask the scheduler for a GPU, or compare the driver with the CUDA version of this torch build."
    )
    return (
        f"{why}, but torch sees none.\n  driver: {found}\n  torch:  {torch.__version__} ({build})\n"
        f"{remedy}\nWithout a GPU: trainer=cpu"
    )
