"""lab bench: what it measures is what was put in, its forecast follows from it, and nothing of it stays but its result."""

import json
import pstats
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import call, commit
from trainings import add_trial, last

MODEL = """
import time

import torch
from torch import nn


class Slow(nn.Module):
    \"\"\"forward and backward sleep as long as they are told, plus `sample_s` for each sample beyond 16.\"\"\"

    def __init__(self, forward_s=0.0, backward_s=0.0, sample_s=0.0, largest=10**6):
        super().__init__()
        self.forward_s, self.backward_s, self.sample_s, self.largest = forward_s, backward_s, sample_s, largest
        self.layer = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        if len(image_B1HW) > self.largest:
            raise torch.OutOfMemoryError("so much memory there is not")
        time.sleep(self.forward_s + max(0, len(image_B1HW) - 16) * self.sample_s)
        score_BC = self.layer(image_B1HW.flatten(1))
        if score_BC.requires_grad:
            score_BC.register_hook(lambda gradient: time.sleep(self.backward_s))
        return score_BC
"""
DATA = """
import time

from .data import Digits


class Late(Digits):
    def __init__(self, load_s=0.0, **settings):
        super().__init__(**settings)
        self.load_s = load_s

    def on_after_batch_transfer(self, batch, dataloader_idx):
        time.sleep(self.load_s)
        return super().on_after_batch_transfer(batch, dataloader_idx)
"""
TRIAL = "model:\n  _target_: .model.Slow\n  forward_s: {forward_s}\n  backward_s: 0.0\n  sample_s: 0.0\n  largest: 1000000\n"
LATE = "_target_: ${package}.late.Late\npath: digits.h5\nsearch: ${paths.data}\nbatch_size: 16\nload_s: 0.0\n"
PARTS = ("load", "forward", "backward", "optimizer", "other")
CPU = ("trainer=cpu", "trainer.threads=1")
SLOW = ("trial=slow", "data=late", *CPU)


@pytest.fixture(scope="module")
def slow(home):
    """The shared project with two trials and a data path that sleep; one trial was edited since its commit."""
    (home / "src/myproj/late.py").write_text(DATA)
    (home / "src/myproj/conf/data/late.yaml").write_text(LATE)
    for name, forward_s in {"slow": 0.0, "edited": 0.05}.items():
        add_trial(home, name, model_py=MODEL, config_yaml=TRIAL.format(forward_s=forward_s))
    commit(home, "Sleep")
    (home / "src/myproj/trials/edited/config.yaml").write_text(TRIAL.format(forward_s=0.2))
    return home


def result(said):
    (line,) = [line for line in said.splitlines() if line.startswith("{")]
    return json.loads(line)


def bench(folder, *words):
    return result(call(folder, "lab", "bench", *words, "--json"))


def files(folder):
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {str(path) for path in found if not {"__pycache__", ".git", ".venv"} & set(path.parts)}


def test_each_part_is_what_it_took(slow):
    before = files(slow)
    found = bench(
        slow,
        *SLOW,
        "data.load_s=0.04",
        "model.forward_s=0.06",
        "model.backward_s=0.08",
        "--steps=8",
    )
    for part, slept_s in {"load": 0.04, "forward": 0.06, "backward": 0.08}.items():
        assert (
            slept_s
            <= found["parts_s"][part]["min"]
            <= found["parts_s"][part]["median"]
            < slept_s + 0.02
        ), part
    assert tuple(found["parts_s"]) == PARTS
    assert sum(found["shares"].values()) == pytest.approx(1)
    whole = sum(found["parts_s"][part]["median"] for part in PARTS)
    assert whole == pytest.approx(found["step_s"]["median"], rel=0.1)
    assert found["samples_per_s"] == pytest.approx(16 / found["step_s"]["median"], rel=0.1)
    assert found["n_steps"] == 8
    assert found["n_parameters"] == 650
    assert found["flops_per_step"] == 2 * 2 * 16 * 64 * 10, (
        "a product forward and one backward; images have no gradient"
    )
    assert found["memory_bytes"]["weights"] == found["memory_bytes"]["gradients"] == 650 * 4
    assert 2 * 650 * 4 <= found["memory_bytes"]["optimizer"] < 2 * 650 * 4 + 100, (
        "two moments and the steps"
    )
    assert found["memory_bytes"]["activations"] >= 16 * 64 * 4
    assert found["power_w"] is None
    (new,) = files(slow) - before
    assert new == f"runs/slow/bench-{found['code']['tree'][:12]}-{new[-11:-5]}.json"
    assert json.loads((slow / new).read_text()) == found
    assert found["schema"] == 1


def test_a_step_of_several_batches_is_timed_as_one(slow):
    accumulated = ("trainer.accumulate_grad_batches=3", "profile=cprofile")
    monitor = (
        "callbacks.lr={_target_: lightning.pytorch.callbacks.LearningRateMonitor}"  # wants a logger
    )
    found = bench(slow, *SLOW, "model.forward_s=0.03", *accumulated, monitor, "--steps=3")
    assert 0.09 <= found["parts_s"]["forward"]["median"] < 0.13
    assert found["samples_per_step"] == 48
    assert found["parts_s"]["optimizer"]["min"] > 0
    functions = pstats.Stats(str(slow / "runs/slow/profile/cprofile-rank0.prof")).stats
    assert "training_step" in {name for _, _, name in functions}


def test_a_slow_data_path_is_called_so_and_names_the_setting(slow):
    said = call(slow, "lab", "bench", *SLOW, "data.load_s=0.03", "--steps=20", "--plot=parts.svg")
    assert "data-bound" in said
    assert "data.num_workers" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    drawn = (slow / "parts.svg").read_text()
    assert all(f"<!-- {part} -->" in drawn for part in PARTS), "the words of the legend"
    (slow / "parts.svg").unlink()
    assert "compute-bound" in call(
        slow, "lab", "bench", *SLOW, "model.forward_s=0.03", "--steps=20"
    )


@pytest.fixture(scope="module")
def several(slow):
    """What the commands that make several benches say; at the same time, as they mostly sleep or import."""
    model = ("model.forward_s=0.16", "model.sample_s=0.02", "model.largest=40")
    commands = {
        "sweep": (*SLOW, *model, "--sweep=batch=8..64", "--json"),
        "compare": ("trial=edited", "data=late", *CPU, "--compare", "HEAD", "."),
        "scaling": (
            *SLOW,
            "model.forward_s=0.2",
            "--scaling=1,2",
            "--plot=runs/drawn/scaling.png",
            "--json",
        ),
    }
    few = ("--steps=4", "trainer.limit_val_batches=1", "trainer.limit_test_batches=1")
    alone = bench(slow, *SLOW, "model.forward_s=0.2", *few)
    with ThreadPoolExecutor(len(commands)) as threads:
        said = {
            key: threads.submit(call, slow, "lab", "bench", *words, *few)
            for key, words in commands.items()
        }
    return {key: future.result() for key, future in said.items()} | {"alone": alone}


def test_a_sweep_finds_the_knee_and_the_largest_batch_that_fits(several):
    found = result(several["sweep"])
    assert found["key"] == "data.batch_size"
    assert found["knee"] == 16
    assert found["largest"] == 40
    assert found["refused"] == 48, "what lies between them is not more than 8"
    assert set(found["samples_per_s"]) == {"8", "16", "32", "40"}


def test_a_commit_is_compared_with_the_code_as_it_is_in_turns(slow, several):
    said = several["compare"]
    assert [line.split()[0] for line in said.splitlines() if "samples/s" in line] == ["A", "B"] * 3
    ratio = float(said.split(". takes ")[1].split()[0])
    assert 2 < ratio < 4.2, "0.2 s against 0.05 s, and what both need besides"
    trees = {path.name.split("-")[1] for path in slow.glob("runs/edited/bench-*.json")}
    assert len(trees) >= 2, "HEAD is without the edit"


def test_a_trial_is_a_side_of_a_comparison(project, module, tmp_path):
    here = module("project").Project.find(project)
    assert module("bench.compare").code_to_compare(here, "baseline", ["seed=1"], tmp_path) == (
        ["seed=1", "trial=baseline"],
        {},
    )


def test_two_processes_are_measured_against_one(slow, several):
    found = result(several["scaling"])
    assert set(found["efficiency"]) == {"1", "2"}
    assert found["efficiency"]["1"] == 1
    assert 0.4 < found["efficiency"]["2"] <= 1.2, "sleeping scales, on any number of cores"
    assert (slow / "runs/drawn/scaling.png").read_bytes().startswith(b"\x89PNG")
    kept = [json.loads(path.read_text()) for path in slow.glob("runs/slow/bench-*.json")]
    (scaled,) = [one for one in kept if "scaling" in one]
    assert scaled == several["alone"] | {"scaling": found["samples_per_s"]}, (
        "beside what was measured before"
    )


def test_the_learning_rate_curve_changes_nothing(slow):
    before = files(slow)
    said = call(slow, "lab", "bench", "trial=baseline", *CPU, "--lr")
    best = float(said.split("optimizer.lr=")[1])
    assert 1e-6 < best < 0.3
    assert files(slow) == before


def test_a_run_shows_its_forecast_beside_what_it_took(slow):
    settings = (*SLOW, "model.forward_s=0.05", "data.batch_size=128")
    found = bench(slow, *settings, "trainer.max_epochs=2", "--steps=5")
    call(slow, "lab", "train", *settings, "trainer.max_epochs=10", "optimizer.lr=1e-2")
    record = last(slow)
    expected_s = record["attempts"][0]["start"]["forecast"]["seconds"]
    assert expected_s > found["forecast"][0]["seconds"], "ten epochs, not two"
    assert record["seconds"] == pytest.approx(expected_s, rel=0.5)
    assert "forecast    0:00:" in call(slow, "lab", "runs", "show", "@last")
    call(slow, "lab", "train", *settings, "trainer.max_epochs=1", "data.batch_size=64")
    assert last(slow)["attempts"][0]["start"]["forecast"] is None, "not benched with these settings"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trial=baselin"], "did you mean: baseline"),
        (["trial=baseline", "--steps=1"], "--steps takes 2 or more"),
        (["trial=baseline", "--plot=x.jpg"], "ends with .png or .svg"),
        (["trial=baseline", "--plot=pyproject.toml/x.png"], "--plot=pyproject.toml/x.png: "),
        (["trial=baseline", "--sweep=batch=64..8"], "batch=8..1024"),
        (["trial=baseline", "--sweep=batch"], "batch=8..1024"),
        (["trial=baseline", "--scaling=0,1"], "such as 1,2,4"),
        (["trial=baseline", "--forecast=-1"], "8xH100"),
        (["trial=baseline", "--compare", "basline", "HEAD"], "did you mean: baseline"),
        (["--compare", "HEAD", "baseline"], "add trial=NAME"),
        (["trial=baseline", "--lr", "--sweep=batch=8..64"], "not allowed with"),
    ],
)
def test_wrong_uses_are_answered_before_anything_slow(slow, words, said):
    assert said in call(slow, "lab", "bench", *words, rc=2, timeout_s=60)


def test_help_imports_no_torch(slow):
    told = call(slow, "python", "-X", "importtime", "-m", "myproj.lab", "bench", "--help")
    assert "--sweep" in told
    assert " torch\n" not in told
