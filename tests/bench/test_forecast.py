"""What the figures of a bench mean: forecasts, verdicts, and the marks that a chronometer leaves on a CUDA device."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from labrig.bench import chronometer
from labrig.bench.forecast import (
    forecast_training,
    format_forecast,
    print_forecast,
    require_comparable_device,
)
from labrig.bench.report import list_findings
from labrig.bench.result import (
    BenchResult,
    Measurement,
    MemoryBytes,
    Spread,
    StageTimes,
    bench_path,
    peak_tflops,
    read_bench,
)
from labrig.errors import LabError
from omegaconf import OmegaConf

SHARES = {"load": 0.1, "forward": 0.3, "backward": 0.4, "optimizer": 0.1, "other": 0.1}
STEADY = Spread(median=0.1, min=0.1, spread=0.001)
MEMORY = MemoryBytes(
    weights=10**9,
    gradients=10**9,
    optimizer=2 * 10**9,
    activations=10**9,
    peak=10 * 10**9,
    device=40 * 10**9,
)
MEASURED = Measurement(
    accelerator="gpu",
    device="NVIDIA A100-SXM4-40GB",
    devices=1,
    precision="bf16-mixed",
    matmul_precision="high",
    threads=8,
    deterministic=False,
    accumulate_grad_batches=1,
    world_size=1,
    n_steps=50,
    samples_per_step=64,
    steps_per_epoch=1000,
    step_s=STEADY,
    parts_s={part: STEADY for part in SHARES},
    shares=SHARES,
    launch_s=0.02,
    samples_per_s=640.0,
    power_w=300.0,
    joules_per_sample=0.5,
    times_s=StageTimes(startup=8.0, step=0.1, epoch=1.0, val=10.0, test=20.0, checkpoint=2.0),
    flops_per_step=int(0.4 * 312e12 * 0.1),  # 40 % of the peak in 0.1 s
    n_parameters=10**6,
    uneven=[],
    memory_bytes=MEMORY,
)
BENCH = BenchResult(
    trial="wide",
    overrides=["trial=wide"],
    code={"commit": "c" * 40, "tree": "f" * 40, "dirty": False},
    host="node1",
    created="2026-01-01T00:00:00+00:00",
    measured=MEASURED,
)


def settings(max_epochs=10, devices="auto", job=None, of_trainer=None, **budget):
    trainer = {
        "max_epochs": max_epochs,
        "max_steps": -1,
        "check_val_every_n_epoch": 2,
        "accumulate_grad_batches": 1,
        "test_after_fit": True,
    } | (of_trainer or {})
    prices = (
        dict.fromkeys(("gpu_hours", "price_per_gpu_hour", "price_per_kwh", "currency")) | budget
    )
    return OmegaConf.create(
        {"trainer": trainer | {"devices": devices}, "budget": prices, "job": job or {}}
    )


WIDE = {"trial": "wide/low", "optimizer": {"_target_": "x.Y", "lr": 0.1}}


def test_a_forecast_adds_up():
    prices = settings(price_per_gpu_hour=2.0, price_per_kwh=0.5, currency="EUR")
    forecast = forecast_training(BENCH, prices)
    assert forecast.seconds == pytest.approx(8 + 10_000 * 0.1 + 10 * (1 + 2) + 5 * 10 + 20)
    assert forecast.gpu_hours == pytest.approx(forecast.seconds / 3600)
    assert forecast.kwh == pytest.approx(0.3 * forecast.gpu_hours)
    assert forecast.cost == pytest.approx(2 * forecast.gpu_hours + 0.5 * forecast.kwh)
    assert "EUR" in format_forecast(forecast)
    assert "rough" not in format_forecast(forecast)
    assert forecast_training(BENCH, settings()).cost is None, "no shipped prices"
    endless = replace(BENCH, measured=replace(MEASURED, steps_per_epoch=None))
    assert forecast_training(endless, settings()) is None, "the length is not known"


VALIDATIONS = [
    ({"val_check_interval": 0.25, "check_val_every_n_epoch": 1}, 40),
    ({"val_check_interval": 1.0, "check_val_every_n_epoch": 2}, 5),
    ({"val_check_interval": 500, "check_val_every_n_epoch": None}, 20),
    ({"val_check_interval": 500, "check_val_every_n_epoch": 2, "accumulate_grad_batches": 5}, 50),
    ({"val_check_interval": "00:00:10:00", "check_val_every_n_epoch": 1}, 10),
    ({"val_check_interval": None, "check_val_every_n_epoch": None}, 10),
    ({"val_every_steps": 100, "check_val_every_n_epoch": 1, "accumulate_grad_batches": 5}, 100),
]


@pytest.mark.parametrize(("of_trainer", "n_validations"), VALIDATIONS)
def test_a_forecast_counts_validations_as_lightning_makes_them(of_trainer, n_validations):
    forecast = forecast_training(BENCH, settings(of_trainer=of_trainer))
    assert forecast.seconds == pytest.approx(8 + 1000 + 10 * 3 + n_validations * 10 + 20)


def test_max_time_ends_a_forecast():
    limit = {"max_time": {"seconds": 100}}
    forecast = forecast_training(BENCH, settings(of_trainer=limit))
    assert forecast.seconds == pytest.approx(8 + 100 + 20)
    assert forecast.n_steps == 1000
    endless = replace(BENCH, measured=replace(MEASURED, steps_per_epoch=None))
    no_end = limit | {"max_epochs": None}
    assert forecast_training(endless, settings(of_trainer=no_end)).n_steps == 1000
    late = {"max_time": "01:00:00:00"}
    assert forecast_training(BENCH, settings(of_trainer=late)) == forecast_training(
        BENCH, settings()
    )


def test_a_forecast_knows_all_devices():
    assert forecast_training(BENCH, settings(devices=-1)).n_devices == 1


def test_more_devices_lose_what_was_measured_with_each_doubling():
    one = forecast_training(BENCH, settings())
    perfect = forecast_training(BENCH, settings(), n_devices=8)
    scaled = replace(BENCH, scaling={"1": 100.0, "2": 180.0})
    measured = forecast_training(scaled, settings(job={"nodes": 2, "gpus": 4}))
    assert perfect.n_devices == measured.n_devices == 8
    assert perfect.n_steps == one.n_steps / 8
    assert perfect.rough
    fixed_s = 8 + 10 * 3 + (50 + 20) / 8
    assert measured.seconds - fixed_s == pytest.approx((perfect.seconds - fixed_s) / 0.9**3)


def test_another_gpu_is_the_ratio_of_the_peaks():
    on_h100 = forecast_training(BENCH, settings(), gpu="H100")
    assert on_h100.rough
    assert on_h100.kwh is None, "its power was not measured"
    saved_s = forecast_training(BENCH, settings()).seconds - on_h100.seconds
    assert saved_s == pytest.approx(1000 * 0.9 * (1 - 312 / 989)), "loading gains nothing"
    with pytest.raises(LabError, match="did you mean: H100"):
        forecast_training(BENCH, settings(), gpu="HX100")
    assert peak_tflops("NVIDIA H100 PCIe", "16-mixed") == 756
    assert peak_tflops("NVIDIA A100-SXM4-40GB", "32-true", "highest") == 19.5
    assert peak_tflops("cpu", "32-true") is None


def test_a_forecast_is_printed_for_what_was_benched(tmp_path, capsys):
    config = OmegaConf.merge(settings(), WIDE, {"paths": {"runs": str(tmp_path)}})
    tree, day_s = "f" * 40, 86400
    assert print_forecast([config], tree, day_s) == [None], "not benched"
    path = bench_path(config, tree)
    path.parent.mkdir()
    path.write_text(json.dumps(BENCH.as_json()))
    assert path.parent.name == "wide+low"
    assert capsys.readouterr().err == ""
    (forecast,) = print_forecast([config], tree, day_s)
    assert forecast.gpu_hours < 0.5
    assert capsys.readouterr().err.startswith("forecast: 0:18:28 on 1 x NVIDIA A100")
    print_forecast([config] * 2, tree, limit_s=600)
    said = capsys.readouterr().err
    assert "the longest of 2 runs; all: 0.616 GPU-hours" in said
    assert "that is longer than job.time: 0:10:00" in said
    (of_site,) = print_forecast([config], tree, day_s, n_devices=8)
    config.job = {"nodes": 1, "gpus": None, "total_gpus": 8}
    (typed,) = print_forecast([config], tree, day_s)
    assert typed == of_site
    assert (typed.n_devices, typed.n_steps) == (8, forecast.n_steps / 8)
    config.optimizer.lr, config.trainer.max_epochs = 0.2, 100
    assert bench_path(config, tree) == path, "neither changes the time of a step"
    for other in (
        {"optimizer": {"_target_": "x.Z"}},
        {"optimizer": {"fused": True}},
        {"trainer": {"threads": 1}},
    ):
        assert bench_path(OmegaConf.merge(config, other), tree) != path


def test_a_bench_is_read_back_as_it_was_written(tmp_path):
    config = OmegaConf.merge(settings(), WIDE, {"paths": {"runs": str(tmp_path)}})
    tree = "f" * 40
    findings = list_findings(MEASURED, config)
    forecasts = [forecast_training(BENCH, config), None]
    bench = replace(BENCH, verdict=findings, forecast=forecasts, scaling={"1": 1.0, "2": 2.0})
    path = bench_path(config, tree)
    path.parent.mkdir()
    path.write_text(json.dumps(bench.as_json()))
    assert read_bench(config, tree) == bench
    odd = [{}, {"schema": 1}, bench.as_json() | {"schema": 0}, bench.as_json() | {"step_s": 5}]
    odd += [bench.as_json() | {"verdict": [5]}, bench.as_json() | {"format": 99}]
    for content in odd:
        path.write_text(json.dumps(content))
        assert read_bench(config, tree) is None, "it only helps: no training may fail by it"


@pytest.mark.parametrize(
    ("figures", "name", "setting"),
    [
        ({}, "compute-bound", "speed.channels_last"),
        ({"shares": {"load": 0.3, "other": 0.0}}, "data-bound", "data.num_workers"),
        ({"launch_s": 0.09, "flops_per_step": 10**12}, "launch-bound", "speed.compile"),
        ({"shares": {"load": 0.0, "other": 0.4}}, "overhead-bound", "data.batch_size"),
        (
            {"memory_bytes": replace(MEMORY, peak=39 * 10**9)},
            "memory nearly full",
            "speed.checkpoint_activations",
        ),
        ({"shares": {"load": 0.15, "other": 0.1}}, "above the network", "data.num_workers"),
        (
            {"shares": {"load": 0.15, "other": 0.1}, "copy_share": 0.12},
            "above the network",
            "data.copy_ahead",
        ),
        ({"shares": {"load": 0.05, "other": 0.1}}, "above the network", "data.batch_size"),
        ({"precision": "32-true"}, "precision not used", "trainer.precision"),
        ({"uneven": ["head (10, 64)"]}, "dimensions not multiples of 8", "model"),
        ({"step_s": replace(STEADY, spread=0.05)}, "unsteady", ""),
        (
            {"step_s": replace(STEADY, spread=0.05), "device": "cpu", "threads": 2},
            "unsteady",
            "trainer.threads=1 (now 2)",
        ),
    ],
)
def test_the_verdict_names_what_would_change_it(figures, name, setting):
    findings = {one.name: one for one in list_findings(replace(MEASURED, **figures), settings())}
    assert name in findings
    assert setting in findings[name].settings
    assert sum("bound" in one for one in findings) == 1


class Event:
    """A mark in the stream of a device whose clock advances by a millisecond with each mark."""

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
        strategy=SimpleNamespace(root_device=torch.device("cuda")),
        num_devices=1,
        world_size=1,
        global_rank=0,
    )
    clock = chronometer.Chronometer(trainer, 5, 1)
    waits = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(clock.n_batches))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(chronometer, "energy_j", lambda: 40.0 * len(waits))
    while not clock.finished:
        clock.start("[_TrainingEpochLoop].train_dataloader_next")
        clock.stop("[_TrainingEpochLoop].train_dataloader_next")
        with clock.profile("batch_to_device"), clock.profile("anything else"):
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
    figures = clock.figures(n_samples=80)
    assert figures.step_s.median == pytest.approx(0.011)
    assert figures.joules_per_sample == pytest.approx(40 / 80)
    assert figures.power_w == pytest.approx(40 / 0.055)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert clock.used_j() is None, "a GPU that this training does not use is counted too"


def test_what_cannot_be_compared_is_refused_before_the_bench(monkeypatch):
    """audit-2, defect 5: it measured for seconds first."""
    gpus = []
    monkeypatch.setattr("labrig.bench.forecast.gpus", lambda: gpus)
    for accelerator in ("auto", "cpu", "gpu"):
        with pytest.raises(LabError, match=r"needs a bench on a GPU.*CPU"):
            require_comparable_device(accelerator)
    gpus.append(SimpleNamespace(name="NVIDIA GeForce GTX 1080"))
    with pytest.raises(LabError, match="the peak of NVIDIA GeForce GTX 1080 is not known"):
        require_comparable_device("auto")
    gpus[0].name = "NVIDIA A100-SXM4-40GB"
    require_comparable_device("auto")
