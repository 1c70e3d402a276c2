"""The fixture that makes NVML show GPUs which this machine does not have: see stand_ins/pynvml.py."""

import json
import sys
from pathlib import Path

import pytest
from labrig.machine import gpu as gpu_module

STAND_INS = Path(__file__).parent / "stand_ins"


@pytest.fixture
def show_gpus(monkeypatch):
    """show_gpus({...}, …): the node has these GPUs."""
    monkeypatch.syspath_prepend(STAND_INS)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    gpu_module.load_nvml.cache_clear()

    def show_gpus(*devices):
        monkeypatch.setenv("STAND_IN_GPUS", json.dumps(devices))

    yield show_gpus
    gpu_module.load_nvml.cache_clear()
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
