"""channels-last and compiled networks compute what the plain one computes; how fast is kept as a figure."""

import pytest
from gpu_runs import EXACT, TRIAL, keep_figure, learn_on_gpu, samples_per_s, train
from in_process import COLOUR, difference
from labrig.training.parts.compile import CompiledForward
from rehearsal import REHEARSED, only_a_gpu_shows
from requirements import gpu, triton

pytestmark = gpu
KERNELS = "*.so" if REHEARSED else "*.cubin"  # what torch.compile makes
CAPTURABLE = "optimizer.fused=false +optimizer.capturable=true"  # refused on a CPU
GRAPHS = (
    "speed.compile=reduce-overhead" if REHEARSED else f"speed.compile=reduce-overhead {CAPTURABLE}"
)
WAYS = ("speed.channels_last=true", "speed.compile=default", GRAPHS)


def test_channels_last_is_used_and_learns_the_same(home):
    plain, other = (
        learn_on_gpu(home, *COLOUR, *EXACT, f"speed.channels_last={value}")
        for value in ("false", "true")
    )
    assert not plain.witness.input_is_channels_last
    assert other.witness.input_is_channels_last
    assert difference(plain, other) < 1e-3


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Where kernels are compiled to; the second mode finds those of the first."""
    return tmp_path_factory.mktemp("caches")


@triton
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_network_learns_the_same(home, caches, monkeypatch, mode):
    monkeypatch.setenv("LAB_CACHES", str(caches))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # torch has set it
    settings = (*COLOUR, *EXACT)
    plain = learn_on_gpu(home, *settings)
    compiled = learn_on_gpu(home, *settings, f"speed.compile={mode}")
    assert "is off" not in compiled.printed
    assert difference(plain, compiled) < 1e-3
    assert list(caches.rglob(KERNELS)), "it fell back to the network as it is"


@triton
def test_a_step_of_graphs_alone_learns_the_same(home, caches, monkeypatch):
    """Networks and the step of the optimizer are CUDA graphs; the schedule changes each step."""
    monkeypatch.setenv("LAB_CACHES", str(caches))
    settings = (*COLOUR, *EXACT, "optimizer.fused=false", "schedule=cosine")
    plain = learn_on_gpu(home, *settings)
    graphs = learn_on_gpu(home, *settings, *GRAPHS.split())
    assert "compiled:" in graphs.printed
    assert difference(plain, graphs) < 1e-3
    only_a_gpu_shows("a captured step")
    step = graphs.witness.optimizer.step
    assert isinstance(step.compiled, CompiledForward), "the step was not captured"
    assert step.compiled.reason is None, "it fell back to the step as it is"


@triton
def test_how_much_faster_each_is(home):
    epochs = ("trainer.max_epochs=8", "log.every_n_steps=20", "trainer.test_after_fit=false")
    plain = samples_per_s(train(home, *epochs))
    for setting in WAYS:
        ratio = samples_per_s(train(home, *epochs, *setting.split())) / plain
        keep_figure(
            f"{setting}, {TRIAL[0]}: samples/s over those of the plain network", f"{ratio:.2f}"
        )
        assert ratio > 0
