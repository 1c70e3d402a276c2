"""The energy that the record holds is power times time."""

import threading
import time

import pynvml
import pytest
import torch
from gpu_runs import train
from myproj.lab.machine.gpu import energy_j, load_nvml
from requirements import gpu

pytestmark = gpu


class PowerMeter(threading.Thread):
    """Watts of the first GPU, asked for a hundred times a second."""

    def __init__(self, handle):
        super().__init__()
        self.handle = handle
        self.watts = []
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.01):
            self.watts.append(pynvml.nvmlDeviceGetPowerUsage(self.handle) / 1000)


def test_energy_is_power_times_time():
    torch.ones((), device="cuda")
    if energy_j() is None:
        pytest.skip("this GPU does not report its energy")
    if torch.cuda.device_count() > 1:
        pytest.skip("several GPUs: set CUDA_VISIBLE_DEVICES to one, the others use power too")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    meter = PowerMeter(load_nvml().nvmlDeviceGetHandleByUUID(uuid))
    left = torch.randn(8192, 8192, device="cuda")
    begin_j, begin_s = energy_j(), time.perf_counter()
    meter.start()
    while time.perf_counter() - begin_s < 10:
        left @ left
        torch.cuda.synchronize()
    seconds, used_j = time.perf_counter() - begin_s, energy_j() - begin_j
    meter.ended.set()
    meter.join()
    mean_w = sum(meter.watts) / len(meter.watts)
    assert used_j == pytest.approx(mean_w * seconds, rel=0.1)


def test_the_record_holds_hours_and_energy(home):
    record = train(home, "trainer.max_epochs=2")
    assert record["gpu_seconds"] == pytest.approx(record["seconds"], rel=0.01)
    if energy_j() is not None:
        assert record["energy_j"] > 0
