# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Devices, driver, memory and energy, asked of a torch that is already imported; nothing when it is not."""

import ctypes
import re
import sys
from pathlib import Path


def torch_facts() -> dict:
    """Versions, flags, threads and GPUs (model and UUID) of this process."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if gpus else None,
        "driver": driver(),
        "gpus": [{"model": gpu.name, "uuid": f"GPU-{gpu.uuid}"} for gpu in gpus],
        "threads": torch.get_num_threads(),
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
        },
    }


def driver() -> str | None:
    """Version of NVIDIA's kernel driver."""
    try:
        match = re.search(r"\d+\.\d+(\.\d+)?", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
    except OSError:
        return None
    return match and match[0]


def peak_gpu_bytes() -> int | None:
    """The most memory that torch's allocator held on one GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return max(torch.cuda.max_memory_reserved(n) for n in range(torch.cuda.device_count()))


def energy_j() -> float | None:
    """Joules that this process's GPUs have used since the driver was loaded; None when they do not tell."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    total_mj = 0
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        nvml.nvmlInit_v2()
        for n in range(torch.cuda.device_count()):
            handle, energy_mj = ctypes.c_void_p(), ctypes.c_ulonglong()
            uuid = f"GPU-{torch.cuda.get_device_properties(n).uuid}".encode()
            if nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)):
                return None
            if nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(energy_mj)):
                return None
            total_mj += energy_mj.value
    except (OSError, AttributeError):
        return None
    return total_mj / 1000
