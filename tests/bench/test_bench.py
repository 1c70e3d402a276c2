"""lab bench: what it measures is what was put in, its forecast follows from it, and only its result stays."""

import json
import pstats
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from labrig.bench.bench import ComparedCode, code_to_compare, efficiencies, format_efficiency
from labrig.project import Project
from projects import call, commit
from trainings import add_trial, last

# In these projects time passes only where they say so: no test depends on the speed of the machine.
CLOCK = """
import time

now_s = time.perf_counter()


def advance(seconds):
    global now_s
    now_s += seconds


time.perf_counter = lambda: now_s
"""
MODEL = """
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...clock import advance


class Slow(nn.Module):
    def __init__(self, forward_s=0.0, backward_s=0.0, optimizer_s=0.0, sample_s=0.0, largest=10**6):
        super().__init__()
        self.forward_s, self.backward_s = forward_s, backward_s
        self.sample_s = sample_s  # in forward, for each sample beyond 16
        self.largest = largest
        self.layer = nn.Linear(64, 10)
        register_optimizer_step_post_hook(lambda *_: advance(optimizer_s))

    def forward(self, image_B1HW):
        if len(image_B1HW) > self.largest:
            raise torch.OutOfMemoryError("so much memory there is not")
        advance(self.forward_s + max(0, len(image_B1HW) - 16) * self.sample_s)
        score_BC = self.layer(image_B1HW.flatten(1))
        if score_BC.requires_grad:
            score_BC.register_hook(lambda gradient: advance(self.backward_s))
        return score_BC
"""
DATA = """
from .clock import advance
from .data import Digits


class Late(Digits):
    def __init__(self, load_s=0.0, **settings):
        super().__init__(**settings)
        self.load_s = load_s

    def on_after_batch_transfer(self, batch, dataloader_idx):
        advance(self.load_s)
        return super().on_after_batch_transfer(batch, dataloader_idx)
"""
TRIAL = """
model:
  _target_: .model.Slow
  forward_s: {forward_s}
  backward_s: 0.0
  optimizer_s: 0.001
  sample_s: 0.0
  largest: 1000000
"""
LATE = """
_target_: ${package}.late.Late
path: digits.h5
search: ${paths.data}
batch_size: 16
load_s: 0.0
"""
PARTS = ("load", "forward", "backward", "optimizer", "other")
CPU = ("trainer=cpu", "trainer.threads=1")
SLOW = ("trial=late", "data=late", *CPU)


@pytest.fixture(scope="module")
def slow(home):
    """The shared project with two trials whose parts take a known time; `late_edited` was edited after its commit."""
    (home / "src/myproj/clock.py").write_text(CLOCK)
    (home / "src/myproj/late.py").write_text(DATA)
    (home / "src/myproj/conf/data/late.yaml").write_text(LATE)
    for name, forward_s in {"late": 0.0, "late_edited": 0.05}.items():
        add_trial(home, name, model_py=MODEL, config_yaml=TRIAL.format(forward_s=forward_s))
    commit(home, "Add parts that take a known time")
    (home / "src/myproj/trials/late_edited/config.yaml").write_text(TRIAL.format(forward_s=0.2))
    return home


def parse_result(output):
    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(line)


def bench(folder, *words):
    return parse_result(call(folder, "lab", "bench", *words, "--json"))


def files(folder):
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {str(path) for path in paths if not {"__pycache__", ".git", ".venv"} & set(path.parts)}


@pytest.mark.slow
def test_each_part_is_what_it_took(slow):
    before = files(slow)
    took_s = {"load": 0.04, "forward": 0.06, "backward": 0.08, "optimizer": 0.02, "other": 0.0}
    settings = [f"model.{part}_s={took_s[part]}" for part in ("forward", "backward", "optimizer")]
    result = bench(slow, *SLOW, *settings, f"data.load_s={took_s['load']}", "--steps=8")
    assert tuple(result["parts_s"]) == PARTS
    for part, seconds in took_s.items():
        assert result["parts_s"][part]["median"] == pytest.approx(seconds, abs=1e-6), part
        assert result["parts_s"][part]["min"] == pytest.approx(seconds, abs=1e-6), part
        assert result["shares"][part] == pytest.approx(seconds / 0.2, abs=1e-6), part
    assert result["step_s"]["median"] == pytest.approx(0.2)
    assert result["samples_per_s"] == pytest.approx(16 / 0.2)
    assert result["n_steps"] == 8
    assert result["n_parameters"] == 650
    assert result["flops_per_step"] == 2 * 2 * 16 * 64 * 10, (
        "a product forward and one backward; images have no gradient"
    )
    memory = result["memory_bytes"]
    assert memory["weights"] == memory["gradients"] == 650 * 4
    assert 2 * 650 * 4 <= memory["optimizer"] < 2 * 650 * 4 + 100, "two moments and the steps"
    assert memory["activations"] >= 16 * 64 * 4
    assert result["power_w"] is None
    (new,) = files(slow) - before
    assert new == f"runs/late/bench-{result['code']['tree'][:12]}-{new[-11:-5]}.json"
    assert json.loads((slow / new).read_text()) == result
    assert result["schema"] == 1


@pytest.mark.slow
def test_a_step_of_several_batches_is_timed_as_one(slow):
    accumulated = ("trainer.accumulate_grad_batches=3", "profile=cprofile")
    monitor = (
        "callbacks.lr={_target_: lightning.pytorch.callbacks.LearningRateMonitor}"  # wants a logger
    )
    result = bench(slow, *SLOW, "model.forward_s=0.03", *accumulated, monitor, "--steps=3")
    assert result["n_steps"] == 3
    assert result["parts_s"]["forward"]["median"] == pytest.approx(3 * 0.03)
    assert result["parts_s"]["optimizer"]["min"] == pytest.approx(0.001), "once for each step"
    assert result["samples_per_step"] == 48
    functions = pstats.Stats(str(slow / "runs/late/profile/cprofile-rank0.prof")).stats
    assert "training_step" in {name for _, _, name in functions}


@pytest.mark.slow
def test_a_slow_data_path_is_called_so_and_names_the_setting(slow):
    settings = ("data.load_s=0.03", "--steps=20", "--plot=parts.svg")
    output = call(slow, "lab", "bench", *SLOW, *settings)
    assert "data-bound" in output
    assert "data.num_workers" in output
    assert all(len(line) <= 80 for line in output.splitlines())
    drawn = (slow / "parts.svg").read_text()
    assert all(f"<!-- {part} -->" in drawn for part in PARTS), "the words of the legend"
    (slow / "parts.svg").unlink()
    output = call(slow, "lab", "bench", *SLOW, "model.forward_s=0.03", "--steps=20")
    assert "compute-bound" in output


@pytest.fixture(scope="module")
def several(slow):
    """The output of the commands that make several benches, which run at the same time."""
    model = ("model.forward_s=0.16", "model.sample_s=0.02", "model.largest=20")
    plot = "--plot=runs/drawn/scaling.png"
    commands = {
        "sweep": (*SLOW, *model, "--sweep=batch=8..32", "--json"),
        "compare": ("trial=late_edited", "data=late", *CPU, "--compare", "HEAD", "."),
        "scaling": (*SLOW, "model.forward_s=0.2", "--scaling=1,2", plot, "--json"),
    }
    few = ("--steps=4", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1")
    alone = bench(slow, *SLOW, "model.forward_s=0.2", *few)
    with ThreadPoolExecutor(len(commands)) as threads:
        outputs = {
            key: threads.submit(call, slow, "lab", "bench", *words, *few, timeout_s=550)
            for key, words in commands.items()
        }
    return {key: output.result() for key, output in outputs.items()} | {"alone": alone}


@pytest.mark.release
def test_a_sweep_finds_the_knee_and_the_largest_batch_that_fits(several):
    result = parse_result(several["sweep"])
    assert result["key"] == "data.batch_size"
    assert result["knee"] == 16
    assert result["largest"] == 16
    assert result["refused"] == 24, "what lies between them is not more than 8"
    assert set(result["samples_per_s"]) == {"8", "16"}


@pytest.mark.release
def test_a_commit_is_compared_with_the_code_as_it_is_in_turns(slow, several):
    output = several["compare"]
    names = [line.split()[0] for line in output.splitlines() if "samples/s" in line]
    assert names == ["A", "B"] * 3
    ratio = float(output.split(". takes ")[1].split()[0])
    assert ratio == pytest.approx((0.2 + 0.001) / (0.05 + 0.001), abs=0.001)
    trees = {path.name.split("-")[1] for path in slow.glob("runs/late_edited/bench-*.json")}
    assert len(trees) >= 2, "HEAD is without the edit"


def test_a_trial_is_compared_by_its_name(project, tmp_path):
    code = code_to_compare(Project.find(project), "baseline", ["seed=1"], tmp_path)
    assert code == ComparedCode(["seed=1", "trial=baseline"])


@pytest.mark.release
def test_two_processes_are_measured_against_one(slow, several):
    result = parse_result(several["scaling"])
    assert result["efficiency"] == {"1": 1, "2": pytest.approx(1)}
    assert (slow / "runs/drawn/scaling.png").read_bytes().startswith(b"\x89PNG")
    benches = [json.loads(path.read_text()) for path in slow.glob("runs/late/bench-*.json")]
    (scaled,) = [content for content in benches if "scaling" in content]
    assert scaled == several["alone"] | {"scaling": result["samples_per_s"]}, (
        "together with what was measured before"
    )


def test_the_efficiency_is_the_rate_of_each_process():
    shares = efficiencies({1: 100.0, 2: 150.0, 4: 100.0})
    assert shares == {1: 1, 2: 0.75, 4: 0.25}
    said = format_efficiency(shares)
    assert said.startswith("efficiency: 100% on 1, 75% on 2, 25% on 4. Below 70%: try data.batch")
    assert "Below" not in format_efficiency({1: 1, 2: 0.75})


@pytest.mark.release
@pytest.mark.slow
def test_the_learning_rate_curve_changes_nothing(slow):
    before = files(slow)
    output = call(slow, "lab", "bench", "trial=baseline", *CPU, "--lr")
    best = float(output.split("optimizer.lr=")[1])
    assert 1e-6 < best < 0.3
    assert files(slow) == before


@pytest.mark.release
@pytest.mark.slow
def test_a_run_shows_the_forecast_of_its_bench(slow):
    settings = (*SLOW, "model.forward_s=0.05", "data.batch_size=128")
    result = bench(slow, *settings, "trainer.max_epochs=2", "--steps=5")
    call(slow, "lab", "train", *settings, "trainer.max_epochs=10", "optimizer.lr=1e-2")
    record = last(slow)
    forecast = record["attempts"][0]["start"]["forecast"]
    assert forecast["n_steps"] == 5 * result["forecast"][0]["n_steps"], "ten epochs, not two"
    assert forecast["n_steps"] == record["attempts"][0]["end"]["global_step"]
    times_s = result["times_s"]
    steps_s = forecast["n_steps"] * (0.05 + 0.001)
    assert forecast["seconds"] > times_s["startup"] + steps_s, "and what epochs take beyond them"
    assert f"forecast    {timedelta(seconds=round(forecast['seconds']))}, took " in call(
        slow, "lab", "runs", "show", "@last"
    )
    call(slow, "lab", "train", *settings, "trainer.max_epochs=1", "data.batch_size=64")
    assert last(slow)["attempts"][0]["start"]["forecast"] is None, "not benched with these settings"


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trial=baselin"], "did you mean: baseline"),
        (["trial=baseline", "--steps=1"], "--steps=1: it takes 2 or more"),
        (["trial=baseline", "--plot=x.jpg"], "ends with .png or .svg"),
        (["trial=baseline", "--plot=pyproject.toml/x.png"], "--plot=pyproject.toml/x.png: "),
        (["trial=baseline", "--sweep=batch=64..8"], "batch=8..1024"),
        (["trial=baseline", "--sweep=batch"], "batch=8..1024"),
        (["trial=baseline", "--scaling=0,1"], "such as 1,2,4"),
        (["trial=baseline", "--forecast=-1"], "8xH100"),
        (["trial=baseline", "--forecast=8xH10"], "did you mean: H100"),
        (["trial=baseline", "--forecast=8", "--lr"], "--forecast does not go with"),
        (
            ["trial=baseline", "trainer.accelerator=cpu", "--forecast=8xH100"],
            "needs a bench on a GPU",
        ),
        (["trial=baseline", "--compare", "basline", "HEAD"], "did you mean: baseline"),
        (["--compare", "HEAD", "baseline"], "add trial=NAME"),
        (["trial=baseline", "--lr", "--sweep=batch=8..64"], "not allowed with"),
    ],
)
def test_wrong_uses_are_answered_before_torch_is_imported(slow, words, message):
    command = ("python", "-X", "importtime", "-m", "labrig", "bench", *words)
    output = call(slow, *command, rc=2)
    assert message in output
    assert not imports_torch(output)


def test_help_imports_no_torch(slow):
    output = call(slow, "python", "-X", "importtime", "-m", "labrig", "bench", "--help")
    assert "--sweep" in output
    assert not imports_torch(output)


def imports_torch(output):
    """Whether the lines of `python -X importtime` in `output` name torch."""
    return any(line.split()[-1:] == ["torch"] for line in output.splitlines())
