# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""NVIDIA GPUs of this node: names, memory, health, energy."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import Refused


def gpus(*fields: str) -> list[list[str]]:
    """nvidia-smi's words for `fields` (nvidia-smi --help-query-gpu), a list per GPU; empty without a driver."""
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


def least_used_gpus(n: int, need_MB: int | None = None, asked: Callable = gpus) -> list[str]:
    """Indices of the n GPUs with the most free memory.

    Raises:
        Refused: there are fewer, or one of them has less free memory than `need_MB` (None: half of its own).
    """
    rows = asked("index", "memory.free", "memory.total")
    there = sorted(
        ((index, int(free), int(total)) for index, free, total in rows), key=lambda gpu: -gpu[1]
    )
    if len(there) < n:
        raise Refused(
            f"job.gpus={n}, but this machine has {len(there)} NVIDIA GPUs. Without one: job.gpus=0"
        )
    for index, free_MB, total_MB in there[:n]:
        need = total_MB // 2 if need_MB is None else need_MB
        if free_MB < need:
            raise Refused(
                f"GPU {index} is the emptiest left, with {free_MB} of {total_MB} MB free; {need} MB are needed.\n"
                "Somebody works there: nvidia-smi. Wait for them, or insist: job.mem=0"
            )
    return [index for index, _, _ in there[:n]]


def nvidia_driver() -> str | None:
    """Version of NVIDIA's kernel driver."""
    try:
        match = re.search(
            r"\d+\.\d+(\.\d+)?", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        )
    except OSError:
        return None
    return match and match[0]


def cuda_in_use() -> Any:
    """torch.cuda when this process uses GPUs, else None."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None


def peak_gpu_bytes() -> int | None:
    """The most memory that torch's allocator held on one GPU."""
    if not cuda_in_use():
        return None
    return max(cuda_in_use().max_memory_reserved(n) for n in range(cuda_in_use().device_count()))


def energy_j() -> float | None:
    """Joules that this process's GPUs have used since the driver was loaded; None when they do not tell."""
    if not cuda_in_use():
        return None
    total_mj = 0
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2()
        for n in range(cuda_in_use().device_count()):
            handle, energy_mj = ctypes.c_void_p(), ctypes.c_ulonglong()
            uuid = f"GPU-{cuda_in_use().get_device_properties(n).uuid}".encode()
            if nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)):
                return None
            if nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(energy_mj)):
                return None
            total_mj += energy_mj.value
    except (OSError, AttributeError):
        return None
    return total_mj / 1000
