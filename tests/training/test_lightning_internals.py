"""With an unknown release of Lightning its private parts are left alone, and trainings work."""

import json
import os
from pathlib import Path

import lightning
import lightning.pytorch as L
import pytest
import torch
from labrig.training import lightning_internals, lightning_internals_torch
from labrig.training.lightning_internals import fetches_watched, signals_ignored
from projects import call
from trainings import SHORT, add_trial, last, rows


@pytest.fixture
def another_release(monkeypatch):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    lightning_internals.print_untested.cache_clear()


def test_lines_are_counted_by_the_core_that_can_count_in_two_threads(monkeypatch):
    for name in ("LINE_PROFILER_CORE", "LINE_PROFILER_OWNER_PID"):
        monkeypatch.setenv(name, "")  # so that what is set ends with the test
        monkeypatch.delenv(name)
    lightning_internals_torch.collect_marked_lines()
    lightning_internals_torch.forget_marked_lines()
    assert os.environ["LINE_PROFILER_CORE"] == "legacy"


def test_with_another_release_the_rest_says_that_it_is_not_there(another_release):
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    with signals_ignored(trainer) as are_ignored, fetches_watched(trainer, print, print) as watched:
        assert (are_ignored, watched) == (False, False)
    assert not lightning_internals.can_restart_validation()


@pytest.mark.parametrize("version", ["2.5.6", "2.7.0", "2.60.1", "3.0.0.dev0"])
def test_only_tested_releases_count_as_tested(monkeypatch, version):
    assert lightning_internals.is_tested()
    monkeypatch.setattr(lightning, "__version__", version)
    assert not lightning_internals.is_tested()


MODEL_OF_ANOTHER_RELEASE = """
import lightning
from torch import nn

lightning.__version__ = "2.99.0"


def net():
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))
"""


@pytest.mark.release
@pytest.mark.slow
def test_with_another_release_runs_train_and_resume(home):
    """test_signals.py stops in the middle of an epoch with another release."""
    config = "model:\n  _target_: .model.net\n"
    add_trial(home, "newer", config_yaml=config, model_py=MODEL_OF_ANOTHER_RELEASE)
    settings = ("trial=newer", *SHORT, "schedule=constant", "log.every_n_steps=5")
    printed = call(home, "lab", "train", *settings)
    assert printed.count("Lightning 2.99.0 was not tested") == 1
    whole = last(home)
    call(home, "lab", "train", *settings, "trainer.max_epochs=1")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=2")
    parts = last(home)
    assert [run["status"] for run in (whole, parts)] == ["finished", "finished"]
    losses = [
        [row["train/loss"] for row in rows(run) if "train/loss" in row] for run in (whole, parts)
    ]
    assert losses[0] == losses[1]
    weights = [
        torch.load(f"{run['run_dir']}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for run in (whole, parts)
    ]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    speed_lines = Path(whole["run_dir"], "speed.jsonl").read_text().splitlines()
    speed = [json.loads(line) for line in speed_lines]
    assert all("speed/samples_per_s" in row and "speed/data_wait" not in row for row in speed)
