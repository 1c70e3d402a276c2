# ruff: noqa: F811 (fixtures are imported by name)
"""What is chosen for a GPU, shown without one: torch and NVML answer as on machines that have it."""

import pytest
import torch
from in_process import composed
from labrig.bench.result import peak_tflops
from labrig.cluster.doctor.checks import tensor_cores
from labrig.errors import LabError
from labrig.training.parts.settings import auto_precision, no_gpu_message, resolve_settings
from projects import PROJECT
from stand_in_gpus import show_gpus  # noqa: F401

ON_GPU = ("trial=baseline", "trainer=gpu")
V100, A100, H100 = (7, 0), (8, 0), (9, 0)  # their capabilities


@pytest.fixture
def gpu_of(monkeypatch):
    """gpu_of(capability): torch sees such a GPU."""

    def show(capability):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA X")

    return show


@pytest.mark.parametrize(
    ("capability", "precision"), [(V100, "16-mixed"), (A100, "bf16-mixed"), (H100, "bf16-mixed")]
)
def test_the_precision_follows_the_capability(gpu_of, capability, precision):
    gpu_of(capability)
    chosen = resolve_settings(composed(PROJECT, *ON_GPU), first_attempt={}).chosen
    assert (chosen.accelerator, chosen.precision, chosen.device) == ("gpu", precision, "NVIDIA X")
    assert auto_precision("cpu") == "32-true"


@pytest.mark.slow
@pytest.mark.parametrize("capability", [V100, H100])
def test_a_fused_optimizer_stays_with_clipping_on_every_gpu(gpu_of, capability):
    gpu_of(capability)
    clipped = composed(PROJECT, *ON_GPU, "trainer.gradient_clip_val=1.0")
    assert resolve_settings(composed(PROJECT, *ON_GPU), {}).config.optimizer.fused
    assert resolve_settings(clipped, {}).config.optimizer.fused


def test_a_resumed_run_keeps_its_precision_on_another_gpu(gpu_of):
    gpu_of(H100)
    first_attempt = {"precision": "16-mixed"}
    assert (
        resolve_settings(composed(PROJECT, *ON_GPU), first_attempt).chosen.precision == "16-mixed"
    )


@pytest.mark.parametrize(
    ("capability", "formats"),
    [((6, 1), "none"), (V100, "fp16 only"), (A100, "bf16 and TF32"), (H100, "bf16 and TF32")],
)
def test_the_doctor_names_what_the_tensor_cores_multiply(gpu_of, capability, formats):
    gpu_of(capability)
    assert f"tensor cores: {formats}" in next(tensor_cores()).text


def test_a_part_of_a_gpu_has_its_share_of_the_peak():
    whole = "NVIDIA A100-SXM4-40GB"
    assert peak_tflops(f"{whole} MIG 1g.5gb", "bf16-mixed") == peak_tflops(whole, "bf16-mixed") / 7
    assert peak_tflops("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "32-true") == 495 * 3 / 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "driver", "text"),
    [
        ("12.6", "11040", "it runs CUDA 11.4 at most.\nAsk for a newer driver\n"),
        ("13.0", "12040", "it runs CUDA 12.4 at most"),
        ("13.0", "12040", "install a build for it: TORCH=cu126 make setup"),
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
    with pytest.raises(LabError) as refused:
        resolve_settings(composed(PROJECT, *ON_GPU), first_attempt={})
    assert "trainer.accelerator=gpu, but torch sees no GPU" in str(refused.value)
    assert text in str(refused.value)


def test_without_a_driver_the_message_says_so(show_gpus, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    assert "no NVIDIA driver is loaded" in no_gpu_message("this job has GPUs")
