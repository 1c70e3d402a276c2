"""The rehearsal on a machine without a GPU: REHEARSE=1 make test-gpu.

Each check then runs on the CPU, up to what only a GPU can show, so that a mistake in it does not wait for a GPU.
NVML is the stand-in of tests/helpers/stand_ins: one GPU, whose energy is its power times the time.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile

import pytest
from labrig import env
from stand_in_gpus import STAND_INS

REHEARSED = os.environ.get("REHEARSE", "") not in ("", "0")
DEVICE = "cpu" if REHEARSED else "cuda"
ONE_GPU = {
    "name": "NVIDIA H100 80GB HBM3",
    "total_MB": 80_000,
    "used_MB": 10,
    "celsius": 40,
    "power_mW": 300_000,
    "energy_mj": "power times time",
    "processes": [],
}


def show(*gpus):
    """NVML shows these GPUs, to this process and to those it starts."""
    os.environ["STAND_IN_GPUS"] = json.dumps(gpus)


def only_a_gpu_shows(what):
    """Ends the rehearsal of a check: what follows needs a GPU."""
    if REHEARSED:
        pytest.skip(f"rehearsed up to here, only a GPU shows {what}")


if REHEARSED:
    leases = tempfile.mkdtemp(prefix="leases-")
    atexit.register(shutil.rmtree, leases, ignore_errors=True)
    os.environ[env.GPU_LEASES] = f"{leases}/gpus"
    sys.path.insert(0, str(STAND_INS))
    sys.modules.pop("pynvml", None)  # torch has imported the real one
    show(ONE_GPU)
