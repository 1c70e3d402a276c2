"""lab bench: what it measures is what was put in, its forecast follows from it, and nothing of it stays but its result."""

import json
import xml.etree.ElementTree as ET

import pytest
import record_package  # noqa: F401 - makes the package importable as recorder
from conftest import call
from omegaconf import OmegaConf
from recorder.lab.errors import LabError, Refused
from recorder.lab.speed.forecast import bench_path, forecast, forecast_for, peak_tflops, told, verdict
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
    """The shared project with two trials and a data path that sleep."""
    for name, forward_s in {"slow": 0.0, "slower": 0.06}.items():
        add_trial(home, name, model_py=MODEL, config_yaml=TRIAL.format(forward_s=forward_s))
    (home / "src/myproj/late.py").write_text(DATA)
    (home / "src/myproj/conf/data/late.yaml").write_text(LATE)
    return home


def bench(folder, *words):
    (line,) = [line for line in call(folder, "lab", "bench", *words, "--json").splitlines() if line.startswith("{")]
    return json.loads(line)


def files(folder):
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {str(path) for path in found if not {"__pycache__", ".git", ".venv"} & set(path.parts)}


def test_each_part_is_what_it_took(slow):
    before = files(slow)
    found = bench(slow, *SLOW, "data.load_s=0.04", "model.forward_s=0.06", "model.backward_s=0.08", "--steps=8")
    for part, slept_s in {"load": 0.04, "forward": 0.06, "backward": 0.08}.items():
        assert slept_s <= found["parts_s"][part]["min"] <= found["parts_s"][part]["median"] < slept_s + 0.02, part
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
    assert 2 * 650 * 4 <= found["memory_bytes"]["optimizer"] < 2 * 650 * 4 + 100, "two moments and the steps"
    assert found["memory_bytes"]["activations"] >= 16 * 64 * 4
    assert found["power_w"] is None
    (new,) = files(slow) - before
    assert new == f"runs/slow/bench-{found['code']['tree'][:12]}-{new[-11:-5]}.json"
    assert json.loads((slow / new).read_text()) == found
    assert found["schema"] == 1


def test_a_step_of_several_batches_is_timed_as_one(slow):
    found = bench(slow, *SLOW, "model.forward_s=0.03", "trainer.accumulate_grad_batches=3", "--steps=3")
    assert 0.09 <= found["parts_s"]["forward"]["median"] < 0.13
    assert found["samples_per_step"] == 48
    assert found["parts_s"]["optimizer"]["min"] > 0


def test_a_slow_data_path_is_called_so_and_names_the_setting(slow):
    said = call(slow, "lab", "bench", *SLOW, "data.load_s=0.1", "--steps=3", "--plot=parts.svg")
    assert "data-bound" in said
    assert "data.num_workers" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    assert len(ET.parse(slow / "parts.svg").findall("{*}polyline")) == len(PARTS)
    (slow / "parts.svg").unlink()
    assert "compute-bound" in call(slow, "lab", "bench", *SLOW, "model.forward_s=0.1", "--steps=3")


def test_a_sweep_finds_the_knee_and_the_largest_batch_that_fits(slow):
    model = ("model.forward_s=0.16", "model.sample_s=0.01", "model.largest=40")
    found = bench(slow, *SLOW, *model, "--sweep=batch=8..64", "--steps=2")
    assert found["key"] == "data.batch_size"
    assert found["knee"] == 16
    assert found["largest"] == 40
    assert found["refused"] == 48
    assert set(found["samples_per_s"]) == {"8", "16", "32", "40"}


def test_two_trials_are_compared_in_turns(slow):
    said = call(
        slow, "lab", "bench", "data=late", *CPU, "model.backward_s=0.02", "--compare", "slow", "slower", "--steps=2"
    )
    assert [line.split()[0] for line in said.splitlines() if "samples/s" in line] == ["A", "B"] * 3
    ratio = float(said.split("slower takes ")[1].split()[0])
    assert 2 < ratio < 4.2, "0.08 s against 0.02 s, and what both need besides"


def test_a_commit_is_compared_with_the_code_as_it_is(slow):
    found = bench(slow, "trial=baseline", *CPU, "--compare", "HEAD", ".", "--steps=2")
    assert len(found["ratios"]) == 3
    trees = {path.name.split("-")[1] for path in slow.glob("runs/baseline/bench-*.json")}
    assert len(trees) >= 2, "HEAD is without the trials of these tests"


def test_two_processes_are_measured_against_one(slow):
    found = bench(slow, *SLOW, "model.forward_s=0.05", "--scaling=1,2", "--steps=4", "--plot=scaling.svg")
    assert set(found["efficiency"]) == {"1", "2"}
    assert found["efficiency"]["1"] == 1
    assert 0.4 < found["efficiency"]["2"] <= 1.2, "sleeping scales, on any number of cores"
    (slow / "scaling.svg").unlink()
    kept = [json.loads(path.read_text()) for path in slow.glob("runs/slow/bench-*.json")]
    assert [one["scaling"] for one in kept if "scaling" in one] == [found["samples_per_s"]]


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
        (["trial=baseline", "--plot=x.png"], "ends with .svg"),
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


BENCH = {
    "device": "NVIDIA A100-SXM4-40GB", "accelerator": "gpu", "precision": "bf16-mixed", "matmul_precision": "high",
    "world_size": 1, "steps_per_epoch": 1000, "power_w": 300.0, "scaling": None, "uneven": [], "peak_share": 0.4,
    "shares": {"load": 0.1, "forward": 0.3, "backward": 0.4, "optimizer": 0.1, "other": 0.1}, "launch_s": 0.02,
    "step_s": {"median": 0.1, "min": 0.1, "spread": 0.001}, "memory_bytes": {"peak": 10e9, "device": 40e9},
    "times_s": {"step": 0.1, "epoch": 1.0, "val": 10.0, "test": 20.0, "checkpoint": 2.0, "startup": 8.0},
}  # fmt: skip


def settings(max_epochs=10, devices="auto", job=None, **budget):
    trainer = {"max_epochs": max_epochs, "max_steps": -1, "check_val_every_n_epoch": 2, "test_after_fit": True}
    prices = dict.fromkeys(("gpu_hours", "price_per_gpu_hour", "price_per_kwh", "currency")) | budget
    return OmegaConf.create({"trainer": trainer | {"devices": devices}, "budget": prices, "job": job or {}})


def test_a_forecast_adds_up():
    found = forecast(BENCH, settings(price_per_gpu_hour=2.0, price_per_kwh=0.5, currency="EUR"))
    assert found["seconds"] == pytest.approx(8 + 10_000 * 0.1 + 10 * (1 + 2) + 5 * 10 + 20)
    assert found["gpu_hours"] == pytest.approx(found["seconds"] / 3600)
    assert found["kwh"] == pytest.approx(0.3 * found["gpu_hours"])
    assert found["cost"] == pytest.approx(2 * found["gpu_hours"] + 0.5 * found["kwh"])
    assert "EUR" in told(found)
    assert "rough" not in told(found)
    assert forecast(BENCH, settings())["cost"] is None, "no shipped prices"
    assert forecast(BENCH | {"steps_per_epoch": None}, settings()) is None, "the length is not known"


def test_more_devices_lose_what_was_measured_with_each_doubling():
    one = forecast(BENCH, settings())
    perfect = forecast(BENCH, settings(), n_devices=8)
    measured = forecast(BENCH | {"scaling": {"1": 100.0, "2": 180.0}}, settings(job={"nodes": 2, "gpus": 4}))
    assert perfect["n_devices"] == measured["n_devices"] == 8
    assert perfect["n_steps"] == one["n_steps"] / 8
    assert perfect["rough"]
    fixed_s = 8 + 10 * 3 + (50 + 20) / 8
    assert measured["seconds"] - fixed_s == pytest.approx((perfect["seconds"] - fixed_s) / 0.9**3)


def test_another_gpu_is_the_ratio_of_the_peaks():
    there = forecast(BENCH, settings(), gpu="H100")
    assert there["rough"]
    assert there["kwh"] is None, "its power was not measured"
    saved_s = forecast(BENCH, settings())["seconds"] - there["seconds"]
    assert saved_s == pytest.approx(1000 * 0.9 * (1 - 312 / 989)), "loading gains nothing"
    with pytest.raises(LabError, match="did you mean: H100"):
        forecast(BENCH, settings(), gpu="HX100")
    assert peak_tflops("NVIDIA H100 PCIe", "16-mixed") == 756
    assert peak_tflops("NVIDIA A100-SXM4-40GB", "32-true", "highest") == 19.5
    assert peak_tflops("cpu", "32-true") is None


def test_a_forecast_above_the_budget_is_refused_unless_meant(tmp_path, capsys):
    config = settings(gpu_hours=0.5)
    more = {"trial": "wide/low", "paths": {"runs": str(tmp_path)}, "optimizer": {"_target_": "x.Y", "lr": 0.1}}
    config = OmegaConf.merge(config, more)
    assert forecast_for(config, "f" * 40) is None, "not benched"
    path = bench_path(config, "f" * 40)
    path.parent.mkdir()
    path.write_text(json.dumps(BENCH | {"schema": 1}))
    assert path.parent.name == "wide+low"
    assert forecast_for(config, "f" * 40)["gpu_hours"] < 0.5
    assert "0:18:28 on 1 x NVIDIA A100" in capsys.readouterr().err
    with pytest.raises(Refused, match="--yes"):
        forecast_for(config, "f" * 40, n_runs=2)
    assert forecast_for(config, "f" * 40, n_runs=2, yes=True)
    config.optimizer.lr, config.trainer.max_epochs = 0.2, 100
    assert bench_path(config, "f" * 40) == path, "neither changes the time of a step"
    config.optimizer["_target_"] = "x.Z"
    assert bench_path(config, "f" * 40) != path


@pytest.mark.parametrize(
    ("figures", "name", "setting"),
    [
        ({}, "compute-bound", "speed.channels_last"),
        ({"shares": {"load": 0.3, "other": 0.0}}, "data-bound", "data.num_workers"),
        ({"launch_s": 0.09, "peak_share": 0.05}, "launch-bound", "speed.compile"),
        ({"shares": {"load": 0.0, "other": 0.4}}, "overhead-bound", "data.batch_size"),
        ({"memory_bytes": {"peak": 39e9, "device": 40e9}}, "memory nearly full", "speed.checkpoint_activations"),
        ({"precision": "32-true"}, "precision not used", "trainer.precision"),
        ({"uneven": ["head (10, 64)"]}, "dimensions not multiples of 8", "model"),
        ({"step_s": {"median": 0.1, "min": 0.1, "spread": 0.05}}, "unsteady", ""),
    ],
)
def test_the_verdict_names_what_would_change_it(figures, name, setting):
    found = {one["name"]: one for one in verdict(BENCH | figures, settings())}
    assert name in found
    assert setting in found[name]["try"]
    assert sum("bound" in one for one in found) == 1
