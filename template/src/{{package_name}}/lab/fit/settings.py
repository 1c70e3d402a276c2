# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What `auto` means on this machine: device, precision, threads. Chosen once, recorded, kept by later attempts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig

from ..errors import LabError
from ..machine.affinity import cores

GPU_WAS_ASKED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")  # set in a job that was given some


def settle(config: DictConfig, earlier: dict[str, Any]) -> dict[str, Any]:
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
    if trainer.devices == "auto":
        trainer.devices = 1
    if trainer.precision == "auto":
        trainer.precision = earlier.get("precision") or auto_precision(trainer.accelerator)
    if trainer.threads == "auto":
        trainer.threads = max(1, cores() // int(trainer.devices))
    torch.set_num_threads(int(trainer.threads))
    torch.set_float32_matmul_precision(trainer.matmul_precision)
    L.seed_everything(config.seed, workers=True, verbose=False)
    if config.record.deterministic:
        make_deterministic()
    if "mixed" in str(trainer.precision) and trainer.gradient_clip_val and config.get("optimizer", {}).get("fused"):
        config.optimizer.fused = False  # it unscales gradients itself, too late for clipping; refused for bf16 too
        print(f"optimizer.fused is off: it is refused with {trainer.precision} and gradient clipping", flush=True)
    on_gpu = trainer.accelerator in ("gpu", "cuda")
    return {
        "accelerator": trainer.accelerator,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "devices": trainer.devices,
        "precision": trainer.precision,
        "threads": trainer.threads,
        "matmul_precision": trainer.matmul_precision,
        "deterministic": config.record.deterministic,
    }


def auto_precision(accelerator: str) -> str:
    """bf16-mixed on Ampere and newer, 16-mixed on older CUDA devices, 32-true elsewhere."""
    if accelerator not in ("gpu", "cuda"):
        return "32-true"
    return "bf16-mixed" if torch.cuda.get_device_capability()[0] >= 8 else "16-mixed"


def make_deterministic() -> None:
    """Only kernels that give the same bits each time; an operation without one raises (torch's notes on reproducibility)."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts, which is later
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def no_gpu(why: str) -> str:
    driver = Path("/proc/driver/nvidia/version")
    found = driver.read_text().splitlines()[0] if driver.exists() else "no NVIDIA driver is loaded on this machine"
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    remedy = "Ask the scheduler for a GPU, or compare the driver with the CUDA version of this torch build."
    if not torch.version.cuda:
        remedy = "Install a CUDA build of torch: TORCH=cu126 make setup"
    return (
        f"{why}, but torch sees none.\n  driver: {found}\n  torch:  {torch.__version__} ({build})\n"
        f"{remedy}\nWithout a GPU: trainer=cpu"
    )
