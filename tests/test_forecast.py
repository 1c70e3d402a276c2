"""What the figures of a bench mean: forecasts, verdicts, and the marks that a chronometer leaves on a CUDA device."""

import json
from types import SimpleNamespace

import pytest
import torch
from myproj.lab.bench import chronometer
from myproj.lab.bench.forecast import (
    bench_path,
    check_budget,
    forecast,
    forecast_from_bench,
    format_forecast,
    peak_tflops,
)
from myproj.lab.bench.verdict import verdict
from myproj.lab.errors import LabError, Refused
from omegaconf import OmegaConf

BENCH = {
    "device": "NVIDIA A100-SXM4-40GB", "accelerator": "gpu", "precision": "bf16-mixed", "matmul_precision": "high",
    "world_size": 1, "steps_per_epoch": 1000, "power_w": 300.0, "scaling": None, "uneven": [], "peak_share": 0.4,
    "shares": {"load": 0.1, "forward": 0.3, "backward": 0.4, "optimizer": 0.1, "other": 0.1}, "launch_s": 0.02,
    "step_s": {"median": 0.1, "min": 0.1, "spread": 0.001}, "memory_bytes": {"peak": 10e9, "device": 40e9},
    "times_s": {"step": 0.1, "epoch": 1.0, "val": 10.0, "test": 20.0, "checkpoint": 2.0, "startup": 8.0},
}  # fmt: skip


def settings(max_epochs=10, devices="auto", job=None, **budget):
    trainer = {
        "max_epochs": max_epochs,
        "max_steps": -1,
        "check_val_every_n_epoch": 2,
        "test_after_fit": True,
    }
    prices = (
        dict.fromkeys(("gpu_hours", "price_per_gpu_hour", "price_per_kwh", "currency")) | budget
    )
    return OmegaConf.create(
        {"trainer": trainer | {"devices": devices}, "budget": prices, "job": job or {}}
    )


def test_a_forecast_adds_up():
    found = forecast(BENCH, settings(price_per_gpu_hour=2.0, price_per_kwh=0.5, currency="EUR"))
    assert found["seconds"] == pytest.approx(8 + 10_000 * 0.1 + 10 * (1 + 2) + 5 * 10 + 20)
    assert found["gpu_hours"] == pytest.approx(found["seconds"] / 3600)
    assert found["kwh"] == pytest.approx(0.3 * found["gpu_hours"])
    assert found["cost"] == pytest.approx(2 * found["gpu_hours"] + 0.5 * found["kwh"])
    assert "EUR" in format_forecast(found)
    assert "rough" not in format_forecast(found)
    assert forecast(BENCH, settings())["cost"] is None, "no shipped prices"
    assert forecast(BENCH | {"steps_per_epoch": None}, settings()) is None, (
        "the length is not known"
    )


def test_more_devices_lose_what_was_measured_with_each_doubling():
    one = forecast(BENCH, settings())
    perfect = forecast(BENCH, settings(), n_devices=8)
    measured = forecast(
        BENCH | {"scaling": {"1": 100.0, "2": 180.0}}, settings(job={"nodes": 2, "gpus": 4})
    )
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
    more = {
        "trial": "wide/low",
        "paths": {"runs": str(tmp_path)},
        "optimizer": {"_target_": "x.Y", "lr": 0.1},
    }
    config = OmegaConf.merge(config, more)
    tree, day_s = "f" * 40, 86400
    check_budget([config], tree, day_s)
    assert forecast_from_bench(config, tree) is None, "not benched"
    path = bench_path(config, tree)
    path.parent.mkdir()
    path.write_text(json.dumps(BENCH | {"schema": 1}))
    assert path.parent.name == "wide+low"
    assert capsys.readouterr().err == ""
    check_budget([config], tree, day_s)
    assert forecast_from_bench(config, tree)["gpu_hours"] < 0.5
    assert capsys.readouterr().err.startswith("forecast: 0:18:28 on 1 x NVIDIA A100")
    check_budget([config], tree, limit_s=600)
    assert "that is longer than job.time: 0:10:00" in capsys.readouterr().err
    with pytest.raises(Refused, match=r"0\.616 GPU-hours; budget.gpu_hours is 0\.5.*--yes"):
        check_budget([config] * 2, tree, day_s)
    check_budget([config] * 2, tree, day_s, yes=True)
    assert "the longest of 2 runs; all: 0.616 GPU-hours" in capsys.readouterr().err
    config.optimizer.lr, config.trainer.max_epochs = 0.2, 100
    assert bench_path(config, tree) == path, "neither changes the time of a step"
    for other in (
        {"optimizer": {"_target_": "x.Z"}},
        {"optimizer": {"fused": True}},
        {"trainer": {"threads": 1}},
    ):
        assert bench_path(OmegaConf.merge(config, other), tree) != path


@pytest.mark.parametrize(
    ("figures", "name", "setting"),
    [
        ({}, "compute-bound", "speed.channels_last"),
        ({"shares": {"load": 0.3, "other": 0.0}}, "data-bound", "data.num_workers"),
        ({"launch_s": 0.09, "peak_share": 0.05}, "launch-bound", "speed.compile"),
        ({"shares": {"load": 0.0, "other": 0.4}}, "overhead-bound", "data.batch_size"),
        (
            {"memory_bytes": {"peak": 39e9, "device": 40e9}},
            "memory nearly full",
            "speed.checkpoint_activations",
        ),
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


class Event:
    """A mark in the stream of a device whose clock goes on by a millisecond from mark to mark."""

    now_ms = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        Event.now_ms += 1
        self.at_ms = Event.now_ms

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


def test_on_cuda_nothing_waits_within_a_step(monkeypatch):
    trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device("cuda")), num_devices=1, world_size=1
    )
    clock, waits = chronometer.Chronometer(trainer, 5, 1), []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(clock.n_batches))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(chronometer, "energy_j", lambda: 40.0 * len(waits))
    trainer.should_stop = False
    while not trainer.should_stop:
        clock.start("[_TrainingEpochLoop].train_dataloader_next")
        clock.stop("[_TrainingEpochLoop].train_dataloader_next")
        with clock.profile("batch_to_device"), clock.profile("nobody asked"):
            pass
        with clock.profile("optimizer_step"):
            for part in ("training_step", "backward"):
                with clock.profile(part):
                    pass
    first = chronometer.WARMUP
    assert waits == [first, first + 5], "before the first measured step and after the last"
    assert (
        clock.steps()
        == [
            {"load": 0.002, "forward": 0.001, "backward": 0.001, "optimizer": 0.003, "other": 0.004}
        ]
        * 5
    )
    found = clock.figures(n_samples=80)
    assert found["step_s"]["median"] == pytest.approx(0.011)
    assert found["joules_per_sample"] == pytest.approx(40 / 80)
    assert found["power_w"] == pytest.approx(40 / 0.055)
