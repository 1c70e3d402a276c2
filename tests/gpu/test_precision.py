"""Precision: chosen by capability, scaled for float16, TF32 where it is allowed, as exact as promised."""

import pytest
import torch
from gpu_runs import EXACT, GPU, checkpoint, device_name, first_attempt, learn_on_gpu, train
from in_process import composed, difference
from labrig.training.parts.settings import apply_settings, resolve_settings
from rehearsal import DEVICE, REHEARSED, only_a_gpu_shows
from requirements import CAPABILITY, ampere, gpu

pytestmark = gpu
TWO_EPOCHS = "trainer.max_epochs=2"


def test_auto_is_what_the_capability_allows(home):
    record = train(home, TWO_EPOCHS)
    expected = "bf16-mixed" if CAPABILITY >= (8, 0) else "16-mixed"
    assert first_attempt(record)["precision"] == ("32-true" if REHEARSED else expected)
    assert first_attempt(record)["device"] == device_name()
    assert record["metrics"]["test/acc"] > 0.9


def test_float16_is_scaled_and_clipped_and_the_scale_is_saved(home):
    settings = ("trainer.precision=16-mixed", "trainer.gradient_clip_val=0.5")
    record = train(home, TWO_EPOCHS, *settings)
    assert record["metrics"]["test/acc"] > 0.9
    content = checkpoint(record)
    only_a_gpu_shows("the scale of float16")
    assert content["MixedPrecision"]["scale"] > 0


@ampere
@pytest.mark.parametrize(("setting", "is_exact"), [("highest", True), ("high", False)])
def test_products_use_tf32_only_where_allowed(home, setting, is_exact):
    settings = (*GPU, f"trainer.matmul_precision={setting}")
    apply_settings(resolve_settings(composed(home, "trial=baseline", *settings), {}).config)
    left, right = torch.randn(2, 2048, 2048, device=DEVICE)
    exact = left.double() @ right.double()
    error = ((left @ right - exact).abs().max() / exact.abs().max()).item()
    torch.set_float32_matmul_precision("highest")
    assert error < 1e-2
    if not is_exact:
        only_a_gpu_shows("TF32")
    assert (error < 1e-5) == is_exact


def test_a_fused_optimizer_learns_the_same(home):
    trained = [
        learn_on_gpu(home, "trial=baseline", *EXACT, f"optimizer.fused={fused}")
        for fused in ("true", "false")
    ]
    assert [one.witness.fused for one in trained] == [True, False]
    assert [one.trainer.strategy.root_device.type for one in trained] == [DEVICE, DEVICE]
    assert difference(*trained) < 1e-2  # Adam divides by small numbers
