"""What a check needs of this machine. Where that is missing, pytest names it: `make test-gpu` prints each reason."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

N_GPUS = torch.cuda.device_count()
CAPABILITY = torch.cuda.get_device_capability() if N_GPUS else (0, 0)
RESTRICTED = Path("/proc/driver/nvidia/params")  # says who may read the counters of kernels

gpu = pytest.mark.skipif(N_GPUS == 0, reason="no GPU: torch sees none")
two_gpus = pytest.mark.skipif(N_GPUS < 2, reason=f"two GPUs are needed, torch sees {N_GPUS}")
ampere = pytest.mark.skipif(
    CAPABILITY < (8, 0), reason=f"Ampere (8.0) or newer is needed, this GPU has {CAPABILITY}"
)
nccl = pytest.mark.skipif(
    not torch.distributed.is_nccl_available(), reason="no NCCL in this build of torch"
)
triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="no Triton: the package is not installed"
)


def may_profile() -> bool:
    """Whether this user may read the counters of kernels: root, or the driver allows everybody."""
    if os.geteuid() == 0:
        return True
    text = RESTRICTED.read_text() if RESTRICTED.exists() else ""
    return "RmProfilingAdminOnly: 0" in text


profiler = pytest.mark.skipif(
    not may_profile(), reason="no profiler rights: the driver gives kernel counters to root only"
)
