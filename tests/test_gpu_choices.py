# ruff: noqa: F811 (fixtures are imported by name)
"""What is chosen for a GPU, shown without one: torch and NVML answer as on machines that have it."""

import pytest
import torch
from myproj.lab.bench.peaks import peak_tflops
from myproj.lab.training.settings import auto_precision, no_gpu_message
from stand_in_gpus import show_gpus  # noqa: F401


@pytest.mark.parametrize(
    ("capability", "precision"),
    [((7, 0), "16-mixed"), ((8, 0), "bf16-mixed"), ((9, 0), "bf16-mixed")],
)
def test_the_precision_follows_the_capability(monkeypatch, capability, precision):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert auto_precision("gpu") == precision
    assert auto_precision("cpu") == "32-true"


def test_a_part_of_a_gpu_has_its_share_of_the_peak():
    whole = "NVIDIA A100-SXM4-40GB"
    assert peak_tflops(f"{whole} MIG 1g.5gb", "bf16-mixed") == peak_tflops(whole, "bf16-mixed") / 7
    assert peak_tflops("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "32-true") == 495 * 3 / 7


@pytest.mark.parametrize(
    ("build", "driver", "text"),
    [
        ("12.6", "11040", "it runs CUDA 11.4 at most"),
        ("12.6", "12000", "Ask the scheduler"),
        (None, "12000", "TORCH=cu126 make setup"),
    ],
)
def test_a_driver_that_is_too_old_for_the_build_is_named(
    show_gpus, monkeypatch, build, driver, text
):
    show_gpus({"total_MB": 1, "used_MB": 0})
    monkeypatch.setenv("STAND_IN_CUDA", driver)
    monkeypatch.setattr(torch.version, "cuda", build)
    assert text in no_gpu_message("trainer.accelerator=gpu")


def test_without_a_driver_the_message_says_so(show_gpus, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    assert "no NVIDIA driver is loaded" in no_gpu_message("this job has GPUs")
