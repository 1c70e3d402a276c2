# ruff: noqa: F811 (fixtures are imported by name)
"""What NVML answers becomes figures of each GPU; what a GPU does not support is None, and no driver is no GPU."""

from types import SimpleNamespace

import pytest
from labrig.errors import Refused
from labrig.machine import gpu as gpu_module
from labrig.machine.gpu import Gpu, energy_j, gpus, require_gpus, utilization_percent
from stand_in_gpus import show_gpus  # noqa: F401


def test_every_figure_is_read(show_gpus):
    figures = {"celsius": 61, "utilization_percent": 7, "uncorrected_errors": 0}
    show_gpus(
        {"name": "NVIDIA H100", "total_MB": 1000, "used_MB": 100, "throttle_reasons": 8} | figures
    )
    assert gpus() == [
        Gpu(
            index=0,
            uuid="GPU-0",
            name="NVIDIA H100",
            memory_MB=1000,
            used_MB=100,
            slowed_down=True,
            **figures,
        )
    ]


def test_what_a_gpu_does_not_support_is_none(show_gpus):
    show_gpus({"total_MB": 1000, "used_MB": 100})
    (gpu,) = gpus()
    assert (gpu.celsius, gpu.utilization_percent, gpu.uncorrected_errors) == (None, None, None)
    assert gpu.slowed_down is None


def test_without_a_driver_there_is_no_gpu(show_gpus):
    assert gpus() == []
    assert not gpu_module.some_are_connected_through_cpus()


def test_gpus_on_two_processors_are_noticed(show_gpus):
    one, other = ({"total_MB": 1, "used_MB": 0, "topology": level} for level in (10, 50))
    show_gpus(one, one)
    assert not gpu_module.some_are_connected_through_cpus()
    show_gpus(other, one)
    assert gpu_module.some_are_connected_through_cpus()


def test_more_gpus_than_there_are_is_refused(show_gpus):
    show_gpus(*[{"total_MB": 1000, "used_MB": 0}] * 3)
    require_gpus(3)
    with pytest.raises(Refused, match=r"job\.gpus=4, but this machine has 3 NVIDIA GPUs"):
        require_gpus(4)


def test_energy_is_the_sum_over_the_gpus_of_this_process(show_gpus, monkeypatch):
    cuda = SimpleNamespace(
        device_count=lambda: 2,
        get_device_properties=lambda n: SimpleNamespace(name="NVIDIA A100", uuid=n),
    )
    monkeypatch.setattr(gpu_module, "cuda_in_use", lambda: cuda)
    one = {"total_MB": 1, "used_MB": 0, "energy_mj": 1500}
    show_gpus(one, one)
    assert energy_j() == 3.0
    show_gpus(one, {"total_MB": 1, "used_MB": 0})
    assert energy_j() is None
    monkeypatch.setattr(gpu_module, "cuda_in_use", lambda: None)
    assert energy_j() is None


@pytest.mark.parametrize("uuid", ["5", "0"])  # of the part, and of the whole GPU
def test_a_part_of_a_gpu_reports_neither_use_nor_energy(show_gpus, monkeypatch, uuid):
    device = SimpleNamespace(name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", uuid=uuid)
    cuda = SimpleNamespace(device_count=lambda: 1, get_device_properties=lambda n: device)
    monkeypatch.setattr(gpu_module, "cuda_in_use", lambda: cuda)
    show_gpus({"total_MB": 1, "used_MB": 0, "energy_mj": 1500, "utilization_percent": 7})
    assert energy_j() is None
    assert utilization_percent(0) is None
    device.name, device.uuid = "NVIDIA A100-SXM4-40GB", "0"
    assert energy_j() == 1.5
    assert utilization_percent(0) == 7


def test_a_driver_that_no_longer_answers_is_no_gpu(show_gpus, monkeypatch):
    show_gpus({"total_MB": 1000, "used_MB": 100})
    assert len(gpus()) == 1
    nvml = gpu_module.load_nvml()

    def lost():
        raise nvml.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lost)
    assert gpus() == []
