"""`speed.compile`: what is compiled, and that a run says whether it runs compiled."""

import json
import os
from copy import deepcopy
from pathlib import Path
from unittest import mock

import pytest
import torch
from in_process import BASELINE, LINEAR, difference, learn
from labrig import env
from labrig.errors import LabError, Refused
from labrig.training.lightning_internals_torch import CompilerWatch
from labrig.training.parts import compile as compile_parts
from labrig.training.parts.compile import CompiledForward, capture_step, require_capturable
from programs import need
from projects import call
from torch import nn
from trainings import add_trial, last

TWO_BATCHES = "trainer.limit_train_batches=2"
COMPILED = ("speed.compile=default", TWO_BATCHES)
WAVY = ("~model.width", "~model.n_classes", "model._target_=test_compiled.Wavy")
BLOCKS = ("~model.width", "~model.n_classes", "model._target_=test_compiled.Blocks")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return x + self.inner(x).relu()


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.blocks = nn.ModuleList(Layer() for _ in range(4))
        self.head = nn.Linear(16, 10)

    def forward(self, image_B1HW):
        x_BC = self.first(image_B1HW.flatten(1))
        for block in self.blocks:
            x_BC = block(x_BC)
        return self.head(x_BC)


class Wavy(nn.Module):
    """Its forward needs a kernel; where only backward needs one, torch ends the training itself."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        return self.head(image_B1HW.flatten(1).sin() * 2)


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    need("g++")  # torch.compile calls it
    torch._dynamo.reset()
    monkeypatch.setenv(env.CACHES, str(tmp_path))
    with mock.patch.dict(os.environ):
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)  # torch has set it
        yield
    torch._dynamo.reset()


@pytest.mark.release
@pytest.mark.slow
def test_compiled_networks_learn_the_same_and_say_it(home, tmp_path):
    usual = learn(home, *LINEAR, TWO_BATCHES)
    compiled = learn(home, *LINEAR, *COMPILED)
    assert difference(usual, compiled) < 1e-4
    assert "compiled: 1 graph, 0 breaks, 0 recompilations" in compiled.printed
    assert list((tmp_path / "torchinductor").rglob("*.so")), "kernels are kept with the caches"


@pytest.mark.release
@pytest.mark.slow
def test_equal_blocks_share_what_is_compiled(home):
    usual = learn(home, *BASELINE, *BLOCKS, TWO_BATCHES)
    one_by_one = learn(
        home, *BASELINE, *BLOCKS, *COMPILED, "speed.compile_modules=[model.blocks.*]"
    )
    assert difference(usual, one_by_one) < 1e-4
    assert "compiled: 1 graph, 0 breaks" in one_by_one.printed


@pytest.fixture
def broken_compiler():
    """Found on the path, so that only the compilation itself fails, as on the H200."""
    with torch._inductor.config.patch({"cpp.cxx": (None, "/bin/false")}):
        yield


@pytest.mark.slow
def test_a_network_that_falls_back_says_why_in_one_line(home, broken_compiler, capfd):
    usual = learn(home, *BASELINE, *WAVY, TWO_BATCHES)
    fell_back = learn(home, *BASELINE, *WAVY, *COMPILED)
    assert difference(usual, fell_back) == 0
    lines = [line for line in fell_back.printed.splitlines() if "speed.compile" in line]
    assert len(lines) == 1
    assert "the networks run uncompiled, 0 of 1 frame compiled. InductorError:" in lines[0]
    assert "WON'T CONVERT" not in "".join(capfd.readouterr())
    with pytest.raises(Refused, match=r"uncompiled.*InductorError"):
        learn(home, *BASELINE, *WAVY, *COMPILED, "speed.compile_fallback=refuse")


@pytest.mark.slow
def test_without_a_compiler_a_run_that_must_be_compiled_is_refused(home, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Refused, match="needs the C\\+\\+ compiler no-such-compiler"):
        learn(home, *BASELINE, *WAVY, *COMPILED, "speed.compile_fallback=refuse")


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", ["compile_modules=[model.*]", "compile_dynamic=true", "compile_fullgraph=true"]
)
def test_a_setting_of_the_compiler_needs_the_compiler(home, setting):
    with pytest.raises(LabError, match=f"speed.{setting.partition('=')[0]} has no effect"):
        learn(home, *LINEAR, f"speed.{setting}")


FALLS_BACK = """
import torch
from torch import nn

torch._inductor.config.cpp.cxx = (None, "/bin/false")


class Wavy(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        return self.head(image_B1HW.flatten(1).sin() * 2)
"""


@pytest.mark.release
@pytest.mark.slow
def test_the_record_says_that_a_run_fell_back(home):
    add_trial(home, "falls", config_yaml="model:\n  _target_: .model.Wavy\n", model_py=FALLS_BACK)
    printed = call(
        home, *("lab", "train", "trial=falls", "trainer=cpu", "trainer.max_epochs=1"), *COMPILED
    )
    assert "the networks run uncompiled" in printed
    start = json.loads(Path(last(home)["run_dir"], "attempts/1/start.json").read_text())
    assert start["compiled"]["fell_back"]
    assert start["compiled"]["graphs"] == 0


@pytest.mark.slow
def test_a_copy_of_a_compiled_module_runs_its_own_weights():
    """Averages of weights copy the module; a copy of torch.compile's function runs the original."""
    module = Wavy()
    module.forward = CompiledForward(module.forward, {"backend": "eager", "fullgraph": False})
    other = deepcopy(module)
    with torch.no_grad():
        other.head.weight.zero_()
        other.head.bias.zero_()
    x = torch.ones(2, 1, 8, 8)
    assert other(x).abs().sum() == 0
    assert module(x).abs().sum() > 0


def steps_of(capture):
    """Weights of a layer after 20 steps of Adam with a schedule, the rates, and what is saved."""
    torch.manual_seed(0)
    layer = nn.Linear(8, 2)
    adam = torch.optim.Adam(layer.parameters(), lr=1e-2, capturable=capture, foreach=True)
    if capture:
        capture_step(adam, "reduce-overhead")
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 1 / (1 + step))
    rates = []
    for x_BC in torch.randn(20, 16, 8):

        def closure():
            adam.zero_grad()
            loss = layer(x_BC).square().mean()  # noqa: B023
            loss.backward()
            return loss

        assert adam.step(closure).item() > 0
        rates.append(adam.param_groups[0]["lr"])
        schedule.step()
    return [*layer.parameters()], rates, adam.state_dict()


@pytest.mark.release
@pytest.mark.slow
def test_a_captured_step_of_an_optimizer_follows_the_schedule_without_compiling_again():
    watch = CompilerWatch()
    watch.begin()
    weights, rates, saved = steps_of(capture=True)
    counts = watch.counts()
    watch.end()
    usual_weights, usual_rates, usual_saved = steps_of(capture=False)
    torch.testing.assert_close(weights, usual_weights)
    assert rates == usual_rates
    assert saved["param_groups"][0]["lr"] == usual_saved["param_groups"][0]["lr"]
    assert saved["state"][0]["step"] == 20
    assert (counts["graphs"], counts["recompilations"]) == (1, 0)


def steps_with_a_later_group(capture):
    """Weights of two layers after 12 steps, of which Adam learns of the second one after 6, and the rates."""
    torch.manual_seed(0)
    first, second = nn.Linear(8, 8), nn.Linear(8, 2)
    adam = torch.optim.Adam(second.parameters(), lr=1e-2, capturable=capture, foreach=True)
    if capture:
        capture_step(adam, "reduce-overhead")
    rates = []
    for n, x_BC in enumerate(torch.randn(12, 16, 8)):
        if n == 6:
            adam.add_param_group({"params": list(first.parameters()), "lr": 3e-3})
        for group in adam.param_groups:
            group["lr"] *= 0.9
        adam.zero_grad()
        second(first(x_BC)).square().mean().backward()
        adam.step()
        rates.append([group["lr"] for group in adam.param_groups])
    assert not capture or adam.step.compiled.reason is None
    return [*first.parameters(), *second.parameters()], rates


@pytest.mark.slow
def test_a_captured_step_takes_groups_that_are_added_later():
    """As BackboneFinetuning adds them."""
    weights, rates = steps_with_a_later_group(capture=True)
    usual_weights, usual_rates = steps_with_a_later_group(capture=False)
    torch.testing.assert_close(weights, usual_weights)
    assert rates == usual_rates
    assert [len(of_step) for of_step in rates] == [1] * 6 + [2] * 6


GRAPHS = ("speed.compile=reduce-overhead", "optimizer=adam", "+optimizer.capturable=true")


@pytest.mark.slow
def test_a_fit_with_captured_steps_learns_the_same_and_warns_of_nothing(home, monkeypatch, recwarn):
    """On the CPU, where torch compiles the step and records no graph of it."""
    monkeypatch.setattr(compile_parts, "require_capturable", lambda *_: None)
    settings = (*BASELINE, *WAVY, "optimizer=adam", "optimizer.fused=false", "schedule=cosine")
    usual = learn(home, *settings, TWO_BATCHES)
    captured = learn(home, *settings, *GRAPHS, TWO_BATCHES)
    assert captured.witness.optimizer.step.compiled.reason is None
    assert "compiled: 2 graphs" in captured.printed
    assert difference(usual, captured) < 1e-4
    assert captured.witness.learning_rates == usual.witness.learning_rates
    assert not [warned for warned in recwarn if "step()" in str(warned.message)]


@pytest.mark.slow
def test_a_captured_step_is_refused_where_there_are_no_graphs(home):
    with pytest.raises(
        Refused, match=r"a CUDA graph, and this training runs on cpu\. Leave it out"
    ):
        learn(home, *BASELINE, *WAVY, *GRAPHS, TWO_BATCHES)


@pytest.mark.parametrize(
    ("about", "match"),
    [
        ({"fused": True}, r"compiles no fused one\. Add optimizer\.fused=false"),
        ({"scaler": "a GradScaler"}, r"precision=16-mixed.*Take trainer\.precision=bf16-mixed"),
        ({"strategy": "ModelParallelStrategy"}, r"ModelParallelStrategy divides it"),
    ],
    ids=str,
)
def test_a_captured_step_is_refused_where_it_cannot_be(about, match):
    strategy = type(about.get("strategy", "SingleDeviceStrategy"), (), {})()
    strategy.root_device = torch.device("cuda")
    trainer = mock.Mock(strategy=strategy, precision="16-mixed")
    trainer.precision_plugin.scaler = about.get("scaler")
    adam = mock.Mock(param_groups=[{"capturable": True, "fused": about.get("fused")}])
    with pytest.raises(Refused, match=match):
        require_capturable(trainer, adam)
