"""The energy that the record holds is power times time."""

import threading
import time
from types import SimpleNamespace

import pytest
import torch
from gpu_runs import train
from labrig.machine import gpu as gpu_module
from labrig.machine.gpu import energy_j, handle_of, load_nvml
from rehearsal import DEVICE, ONE_GPU, REHEARSED, only_a_gpu_shows
from requirements import gpu

pytestmark = gpu
SECONDS = 1 if REHEARSED else 10
SIZE = 256 if REHEARSED else 8192
ONE_DEVICE = SimpleNamespace(
    device_count=lambda: 1,
    get_device_properties=lambda n: SimpleNamespace(name=ONE_GPU["name"], uuid=n),
)


class PowerMeter(threading.Thread):
    """Watts of the first GPU of this process, asked for a hundred times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.nvml = load_nvml()
        self.handle = handle_of(self.nvml, gpu_module.cuda_in_use(), 0)
        self.watts = []
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.01):
            self.watts.append(self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000)


@pytest.fixture
def device_in_use(monkeypatch):
    if REHEARSED:
        monkeypatch.setattr(gpu_module, "cuda_in_use", lambda: ONE_DEVICE)
    else:
        torch.ones((), device="cuda")


def multiply(seconds):
    left = torch.randn(SIZE, SIZE, device=DEVICE)
    begin_s = time.perf_counter()
    while time.perf_counter() - begin_s < seconds:
        (left @ left)[0, 0].item()  # waits for the product


def test_energy_is_power_times_time(device_in_use):
    if energy_j() is None:
        pytest.skip("this GPU, or part of a GPU, does not report its energy")
    if gpu_module.cuda_in_use().device_count() > 1:
        pytest.skip("several GPUs: set CUDA_VISIBLE_DEVICES to one, the others use power too")
    multiply(SECONDS / 2)  # some GPUs report the mean power of the last second
    meter = PowerMeter()
    before_s = time.perf_counter()
    begin_j = energy_j()
    begin_s = time.perf_counter()
    meter.start()
    multiply(SECONDS)
    end_s = time.perf_counter()
    used_j = energy_j() - begin_j
    after_s = time.perf_counter()  # a busy machine may have paused before or after it was asked
    meter.ended.set()
    meter.join()
    mean_W = sum(meter.watts) / len(meter.watts)
    assert 0.9 * mean_W * (end_s - begin_s) <= used_j <= 1.1 * mean_W * (after_s - before_s)


def test_the_record_holds_hours_and_energy(home):
    record = train(home, "trainer.max_epochs=2")
    gpu_seconds, energy = record["gpu_seconds"], record["energy_j"]
    only_a_gpu_shows("GPU-hours and energy of a run")
    assert gpu_seconds == pytest.approx(record["seconds"], rel=0.01)
    torch.ones((), device="cuda")
    is_known = energy_j() is not None and torch.cuda.device_count() == 1
    assert energy > 0 if is_known else energy is None
