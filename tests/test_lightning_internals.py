"""Replaced parts of Lightning change no result, come back after the fit, and are left out with an unknown release."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import lightning
import lightning.pytorch as L
import pytest
import torch
from conftest import call
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.trainer import call as lightnings_calls
from myproj.lab.training import lightning_internals, lightning_internals_torch
from myproj.lab.training.lightning_internals import Internals, fetches_watched, signals_ignored
from myproj.lab.training.preemption import PreemptionCallback
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import DataLoader
from trainings import SHORT, add_trial, last, rows

HOOK_CALLS = (
    "_call_callback_hooks",
    "_call_lightning_module_hook",
    "_call_strategy_hook",
)


class Task(L.LightningModule):
    """Two layers. `calls` are the hooks that were called, each with the name that `self.log` sees
    meanwhile."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.calls = []

    def note(self, owner, hook_name):
        self.calls.append((owner, hook_name, self._current_fx_name))

    def loss(self, batch):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("seen", loss, on_step=True, on_epoch=True)
        return loss

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        return {"loss": loss, "half": loss.detach() / 2}

    def validation_step(self, batch, batch_idx):
        self.log("checked", self.net(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class TaskOfTensors(Task):
    def training_step(self, batch, batch_idx):
        return self.loss(batch)


class TaskWithHooks(Task):
    def on_train_batch_start(self, batch, batch_idx):
        self.note("module", "on_train_batch_start")
        return -1 if batch_idx == 5 else None

    def on_before_zero_grad(self, optimizer):
        self.note("module", "on_before_zero_grad")

    def on_before_backward(self, loss):
        self.note("module", "on_before_backward")

    def on_after_backward(self):
        self.note("module", "on_after_backward")

    def on_before_optimizer_step(self, optimizer):
        self.note("module", "on_before_optimizer_step")

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.note("module", "on_train_batch_end")

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, **_):
        self.note("module", "configure_gradient_clipping")
        nn.utils.clip_grad_value_(self.parameters(), 0.01)

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        self.note("module", "transfer_batch_to_device")
        return [batch[0] * 2, batch[1]]

    def optimizer_step(self, *args, **kwargs):
        self.note("module", "optimizer_step")
        return super().optimizer_step(*args, **kwargs)


class Listener(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        module.note("callback", "on_train_batch_start")

    def on_before_zero_grad(self, trainer, module, optimizer):
        module.note("callback", "on_before_zero_grad")

    def on_after_backward(self, trainer, module):
        module.note("callback", "on_after_backward")

    def on_before_optimizer_step(self, trainer, module, optimizer):
        module.note("callback", "on_before_optimizer_step")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        module.note("callback", "on_train_batch_end")
        module.calls.append(sorted((name, float(value)) for name, value in outputs.items()))

    def on_validation_batch_end(self, trainer, module, *_):
        module.note("callback", "on_validation_batch_end")


class Data(L.LightningDataModule):
    def __init__(self, task):
        super().__init__()
        self.task = task

    def train_dataloader(self):
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return DataLoader(list(zip(x, (x[:, 0] > 0).long(), strict=True)), batch_size=4)

    val_dataloader = train_dataloader

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.task.note("data", "on_after_batch_transfer")
        return batch


def train(task, callbacks, skip_unused_hooks="auto", **settings):
    """Trains two epochs of 8 batches and gives the Trainer."""
    speed = OmegaConf.create({"skip_unused_hooks": skip_unused_hooks, "compile": None})
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*callbacks, Internals(speed)],
        **settings,
    )
    trainer.fit(task, datamodule=Data(task))
    return trainer


@pytest.fixture
def another_release(monkeypatch):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    lightning_internals.print_untested.cache_clear()


CASES = {
    "a dict as output": (Task, {}),
    "a tensor as output": (TaskOfTensors, {}),
    "gradients clipped": (Task, {"gradient_clip_val": 0.01}),
    "gradients accumulated": (Task, {"accumulate_grad_batches": 3}),
    "hooks of the module": (TaskWithHooks, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_without_unused_hooks_is_lightnings_step(case):
    task_class, settings = CASES[case]
    results = []
    for skip_unused_hooks in ("auto", False):
        task = task_class()
        trainer = train(task, [Listener()], skip_unused_hooks, **settings)
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        results.append((task.calls, metrics, [p.tolist() for p in task.parameters()]))
    ours, lightnings = results
    assert len(ours[0]) > 40
    assert ours == lightnings


class Watch(L.Callback):
    """Notes what Lightning calls hooks with, during the fit."""

    def on_train_batch_end(self, *_):
        self.during_fit = {name: getattr(lightnings_calls, name) for name in HOOK_CALLS}


@pytest.mark.parametrize("skip_unused_hooks", ["auto", False])
def test_hooks_are_skipped_during_the_fit_only(skip_unused_hooks):
    before = {name: getattr(lightnings_calls, name) for name in HOOK_CALLS}
    watch = Watch()
    trainer = train(Task(), [watch], skip_unused_hooks)
    assert {name: getattr(lightnings_calls, name) for name in HOOK_CALLS} == before
    assert type(trainer.profiler) is PassThroughProfiler
    are_replaced = [watch.during_fit[name] is not before[name] for name in HOOK_CALLS]
    assert are_replaced == [skip_unused_hooks == "auto"] * 3


class Failing(L.Callback):
    def on_train_batch_end(self, trainer, *_):
        raise RuntimeError("no more")


def test_everything_comes_back_after_an_exception(tmp_path):
    before = {name: getattr(lightnings_calls, name) for name in HOOK_CALLS}
    iterate = DataLoader.__iter__
    with pytest.raises(RuntimeError, match="no more"):
        train(Task(), [Failing(), PreemptionCallback(tmp_path)])
    assert {name: getattr(lightnings_calls, name) for name in HOOK_CALLS} == before
    assert DataLoader.__iter__ is iterate


@dataclass
class Mine(L.Callback):
    """A dataclass has `__eq__`, so it is not hashable; its tensor has no truth value when
    compared."""

    weight: torch.Tensor = field(default_factory=lambda: torch.ones(2))
    n_batches: int = 0

    def on_train_batch_end(self, *_):
        self.n_batches += 1


def test_lines_are_counted_by_the_core_that_can_count_in_two_threads(monkeypatch):
    monkeypatch.delenv("LINE_PROFILER_CORE", raising=False)
    lightning_internals_torch.collect_marked_lines()
    lightning_internals_torch.forget_marked_lines()
    assert os.environ.pop("LINE_PROFILER_CORE") == "legacy"


def test_a_callback_may_be_a_dataclass():
    mine, other = Mine(), Mine()
    train(Task(), [mine, other])
    assert (mine.n_batches, other.n_batches) == (16, 16)


def test_with_another_release_hooks_are_left_alone_and_one_line_says_so(another_release, capsys):
    before = {name: getattr(lightnings_calls, name) for name in HOOK_CALLS}
    watch = Watch()
    for _ in range(2):
        train(Task(), [watch])
        assert watch.during_fit == before
    printed = capsys.readouterr().out
    (line,) = printed.splitlines()
    assert "2.99.0" in line
    assert f"lightning=={lightning_internals.TESTED[-1]}.*" in line


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
