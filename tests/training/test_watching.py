"""The log of a training: its first and last lines, those within an epoch, and the learning rate in its rows."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from labrig.training.watch.optimizer_watch import OptimizerWatch, gradient_norm
from labrig.training.watch.progress import (
    EpochLines,
    StepLines,
    describe_batch,
    describe_network,
    global_batch_line,
)
from labrig.training.watch.standing import Standing
from projects import call
from trainings import SHORT, last, rows

STEP = re.compile(
    r"step (\d+)/24  epoch (\d)/2  loss ([\d.e-]+)(?:  lr [\d.e-]+)?(  samples/s [\d,]+)?(  left 0:\d\d:\d\d)?"
)


@pytest.mark.release
@pytest.mark.slow
def test_a_log_can_be_watched(home):
    settings = (*SHORT, "log.every_s=0", "log.every_n_steps=5", "log.grad_norm=true")
    printed = call(
        home, "lab", "train", "trial=baseline", *settings, "trainer.accumulate_grad_batches=2"
    )
    lines = printed.splitlines()
    assert "Classifier of CNN: 151,498 parameters, 23 batches an epoch" in lines
    assert "batch: float32 (64, 1, 8, 8), int64 (64,)" in lines
    assert (
        "global batch: 128 samples per step = 64 per process × 1 process × 2 accumulated" in lines
    )
    of_steps = [STEP.fullmatch(line) for line in lines if line.startswith("step ")]
    assert all(of_steps), [line for line in lines if line.startswith("step ")]
    assert len(of_steps) == 46, "a line for each batch, because it is due at once"
    assert of_steps[-1][1] == "24"
    assert float(of_steps[0][3]) > 2, "the loss of 10 classes, not its share of 2 batches"
    assert of_steps[-1][4]
    assert of_steps[-1][5] == "  left 0:00:00"
    assert "validation: batch 1/3" in lines
    assert "test: batch 3/3" in lines
    end = Path(last(home)["run_dir"], "attempts/1/end.json")
    peak_GB = json.loads(end.read_text())["peak_memory_bytes"] / 1e9
    cost = rf"cost: 0\.\d+ h, 0\.000 GPU-hours, peak memory {peak_GB:.2f} GB, kWh not measured"
    assert [line for line in lines if re.fullmatch(cost, line)]
    assert max(map(len, lines)) <= 100

    record = last(home)
    of_training = [row for row in rows(record) if "train/loss" in row]
    assert [row["step"] for row in of_training] == [5, 10, 12, 15, 20, 24]
    assert of_training[0]["train/loss"] > 1.5
    rates = [row["train/lr"] for row in of_training]
    assert rates == sorted(rates, reverse=True), "the schedule is a cosine"
    assert rates[-1] > 0, "the rate of the last step, not of one that never comes"
    with_norm = [row["step"] for row in of_training if "train/grad_norm" in row]
    assert with_norm == [5, 10, 15, 20]
    assert "train/lr" not in record["metrics"], "the last rate is no result"


def test_an_epoch_without_validation_shows_none(monkeypatch, capsys):
    """A new user took the old numbers of four epochs for a network that learns nothing."""
    monkeypatch.setattr("labrig.training.watch.progress.ends_epoch", lambda _: True)
    lines = EpochLines()
    metrics = {"train/loss": 0.5, "val/loss": 0.25}
    trainer = SimpleNamespace(
        callback_metrics=metrics,
        max_epochs=2,
        sanity_checking=False,
        state=SimpleNamespace(fn="fit"),
        is_global_zero=True,
        progress_bar_callback=None,
    )
    for epoch in range(2):
        trainer.current_epoch = epoch
        lines.on_train_epoch_start(trainer)
        if epoch == 0:
            lines.on_validation_start(trainer)
            lines.on_validation_end(trainer)
        lines.on_train_epoch_end(trainer)
    printed = capsys.readouterr().out.splitlines()
    assert "val/loss 0.2500" in printed[-2]
    assert "train/loss 0.5000" in printed[-1]
    assert "val/loss" not in printed[-1]


def test_the_norm_is_that_of_all_gradients():
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (1, 2, 3)]
    parameters[0].grad = torch.tensor([3.0])
    parameters[1].grad = torch.tensor([0.0, 4.0])  # the third has none
    optimizer = torch.optim.SGD(parameters, lr=0.25)
    trainer = SimpleNamespace(scaler=None)
    assert gradient_norm(trainer, optimizer) == 5
    # A fused optimizer in 16-mixed has not divided by the scale yet.
    optimizer._step_supports_amp_scaling = True
    scaler, plugin = SimpleNamespace(get_scale=lambda: 2.0), SimpleNamespace()
    scaled = SimpleNamespace(scaler=scaler, precision_plugin=plugin)
    assert gradient_norm(scaled, optimizer) == 2.5
    plugin.optimizer_step = print  # as `fused_gradients_clipped` leaves it: it has divided
    assert gradient_norm(scaled, optimizer) == 5


def test_a_second_optimizer_has_a_rate_of_its_own():
    watch = OptimizerWatch()
    watch.rates = {1: 0.1, 2: torch.tensor(0.5)}
    assert watch.values() == {"train/lr": 0.1, "train/lr_2": 0.5}
    assert watch.rate == 0.1


def test_what_is_not_known_is_left_out():
    standing = Standing(
        step=7,
        n_steps=None,
        epoch=1,
        n_epochs=None,
        loss=None,
        rate=None,
        samples_per_s=None,
        left_s=None,
    )
    assert standing.facts() == {"step": "7", "epoch": "1"}


def test_lines_are_printed_when_they_are_due(monkeypatch, capsys):
    now_s = 100.0
    monkeypatch.setattr("labrig.training.watch.progress.time.monotonic", lambda: now_s)
    facts = SimpleNamespace(facts=lambda: {"step": "1/2"})
    lines = StepLines(60, SimpleNamespace(standing=lambda trainer: facts))
    trainer = SimpleNamespace(is_global_zero=True, progress_bar_callback=None, num_val_batches=[9])
    lines.on_train_start()
    for now_s in (101.0, 159.0, 161.0, 200.0):  # noqa: B007 (the clock reads it)
        lines.on_train_batch_end(trainer)
    now_s = 230.0
    lines.on_validation_batch_end(trainer, None, None, None, 4)
    assert capsys.readouterr().out == "step 1/2\nvalidation: batch 5/9\n"


@pytest.mark.parametrize(
    ("batch", "described"),
    [
        (torch.zeros(2, 3), "float32 (2, 3)"),
        ({"ids": torch.zeros(2, 5, dtype=torch.long), "n": 3}, "ids int64 (2, 5)"),
        ([torch.zeros(1)] * 8, ", ".join(["float32 (1,)"] * 6) + " and 2 more"),
        ("text", "str"),
    ],
)
def test_any_batch_is_described(batch, described):
    assert describe_batch(batch) == described


def test_frozen_parameters_are_counted_apart():
    task = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    task[0].requires_grad_(False)
    assert describe_network(task) == "Sequential: 9 parameters (3 trained)"
    assert global_batch_line(64, 4, 2).startswith("global batch: 512 samples per step = 64 per")
    assert "× 4 processes × 2 accumulated" in global_batch_line(64, 4, 2)
