"""What a check needs of this machine. Where that is missing, pytest names it: `make test-gpu` prints each reason."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch
from rehearsal import REHEARSED

N_GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
CAPABILITY = torch.cuda.get_device_capability() if N_GPUS else (0, 0)
RESTRICTED = Path("/proc/driver/nvidia/params")  # says who may read the counters of kernels


def need(is_there: bool, reason: str) -> pytest.MarkDecorator:
    """Skips a check where something is missing.

    Without a GPU the mark `gpu` gives the reason. A rehearsal tries every check.
    """
    return pytest.mark.skipif(N_GPUS > 0 and not is_there and not REHEARSED, reason=reason)


def may_profile() -> bool:
    """Whether this user may read the counters of kernels: root, or the driver allows everybody."""
    if os.geteuid() == 0:
        return True
    text = RESTRICTED.read_text() if RESTRICTED.exists() else ""
    return "RmProfilingAdminOnly: 0" in text


gpu = pytest.mark.skipif(N_GPUS == 0 and not REHEARSED, reason="no GPU: torch sees none")
two_gpus = need(N_GPUS > 1, f"two GPUs are needed, torch sees {N_GPUS}")
ampere = need(
    CAPABILITY >= (8, 0),
    "Ampere (8.0) or newer is needed, this GPU has {}.{}".format(*CAPABILITY),
)
nccl = need(torch.distributed.is_nccl_available(), "no NCCL in this build of torch")
triton = need(
    importlib.util.find_spec("triton") is not None, "no Triton: the package is not installed"
)
profiler = need(may_profile(), "no profiler rights: the driver gives kernel counters to root only")
