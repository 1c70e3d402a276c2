"""channels-last and compiled networks compute what the plain one computes; how fast is kept as a figure."""

import pytest
from gpu_runs import EXACT, TRIAL, keep_figure, learn_on_gpu, samples_per_s, train
from in_process import COLOUR, difference
from requirements import gpu, triton

pytestmark = gpu
SHORT = ("trainer.max_epochs=1", "trainer.limit_train_batches=10")


def test_channels_last_is_used_and_learns_the_same(home):
    plain, other = (
        learn_on_gpu(home, *COLOUR, *EXACT, f"speed.channels_last={value}")
        for value in ("false", "true")
    )
    assert not plain.witness.input_is_channels_last
    assert other.witness.input_is_channels_last
    assert difference(plain, other) < 1e-3


@triton
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_network_learns_the_same(home, mode):
    plain = learn_on_gpu(home, "trial=baseline", *EXACT, *SHORT, "model.width=8")
    compiled = learn_on_gpu(
        home, "trial=baseline", *EXACT, *SHORT, "model.width=8", f"speed.compile={mode}"
    )
    assert "is off" not in compiled.printed
    # dropout draws its masks in another order once it is compiled
    one, other = (float(each.trainer.callback_metrics["train/loss"]) for each in (plain, compiled))
    assert other == pytest.approx(one, rel=0.1)


@triton
def test_how_much_faster_each_is(home):
    epochs = ("trainer.max_epochs=8", "log.every_n_steps=20", "trainer.test_after_fit=false")
    plain = samples_per_s(train(home, *epochs))
    for setting in ("speed.channels_last=true", "speed.compile=default"):
        ratio = samples_per_s(train(home, *epochs, setting)) / plain
        keep_figure(f"{setting}, {TRIAL[0]}: samples/s over those of the plain network", ratio)
        assert ratio > 0
