"""A step without the hooks that nobody wrote is Lightning's step, and everything that is replaced comes back."""

from dataclasses import dataclass, field

import lightning
import lightning.pytorch as L
import pytest
import torch
from labrig.bench.chronometer import Chronometer
from labrig.training import lightning_internals
from labrig.training.exact.preemption import PreemptionCallback
from labrig.training.lightning_internals import Internals
from lightning.pytorch.loops import training_epoch_loop
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.trainer import call as lightnings_calls
from lightning.pytorch.trainer.states import RunningStage
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import DataLoader

REPLACED = (
    (lightnings_calls, "_call_callback_hooks"),
    (lightnings_calls, "_call_lightning_module_hook"),
    (lightnings_calls, "_call_strategy_hook"),
    (training_epoch_loop, "is_param_in_hook_signature"),
    (RunningStage, "__eq__"),
    (ClosureResult, "from_training_step_output"),
)


def parts():
    """What is replaced, as it is now; None for what a class inherits."""
    return [vars(owner).get(name) for owner, name in REPLACED]


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

    def on_train_batch_end(self, trainer, *_):
        self.during_fit = parts()
        data_hooks = trainer._data_connector._datahook_selector
        self.owner_is_remembered = "get_instance" in vars(data_hooks)
        self.stage_is_text = [trainer.state.stage == text for text in ("train", "TRAIN", "test")]


@pytest.mark.parametrize("skip_unused_hooks", ["auto", False])
def test_hooks_are_skipped_during_the_fit_only(skip_unused_hooks):
    before = parts()
    watch = Watch()
    trainer = train(Task(), [watch], skip_unused_hooks)
    assert parts() == before
    assert type(trainer.profiler) is PassThroughProfiler
    are_replaced = [
        during is not part for during, part in zip(watch.during_fit, before, strict=True)
    ]
    assert are_replaced == [skip_unused_hooks == "auto"] * len(REPLACED)
    assert watch.owner_is_remembered == (skip_unused_hooks == "auto")
    assert "get_instance" not in vars(trainer._data_connector._datahook_selector)
    assert watch.stage_is_text == [True, True, False]


class Timed(L.Callback):
    def setup(self, trainer, pl_module, stage):
        trainer.profiler = Chronometer(trainer, n_steps=1000, accumulate=1)


def test_the_chronometer_times_steps_as_they_are_in_a_training():
    before = parts()
    watch = Watch()
    trainer = train(Task(), [Timed(), watch])
    assert all(during is not part for during, part in zip(watch.during_fit, before, strict=True))
    timed = [mark.part for mark in trainer.profiler.marks]
    # Two epochs of 8 batches, each part with its begin and end.
    assert [timed.count(part) for part in ("forward", "backward", "optimizer")] == [32, 32, 32]


class DoublingData(Data):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] * 2, batch[1]]


def test_a_second_fit_calls_the_hooks_of_its_own_data():
    weights = []
    for skip_unused_hooks in ("auto", False):
        task = Task()
        trainer = train(task, [], skip_unused_hooks)
        trainer.fit_loop.max_epochs = 4
        trainer.fit(task, datamodule=DoublingData(task))
        weights.append([p.tolist() for p in task.parameters()])
        assert task.calls
    assert weights[0] == weights[1]


class Failing(L.Callback):
    def on_train_batch_end(self, trainer, *_):
        raise RuntimeError("no more")


def test_everything_comes_back_after_an_exception(tmp_path):
    before = parts()
    iterate = DataLoader.__iter__
    with pytest.raises(RuntimeError, match="no more"):
        train(Task(), [Failing(), PreemptionCallback(tmp_path)])
    assert parts() == before
    assert DataLoader.__iter__ is iterate


@dataclass
class Mine(L.Callback):
    """A dataclass has `__eq__`, so it is not hashable; its tensor has no truth value when
    compared."""

    weight: torch.Tensor = field(default_factory=lambda: torch.ones(2))
    n_batches: int = 0

    def on_train_batch_end(self, *_):
        self.n_batches += 1


def test_a_callback_may_be_a_dataclass():
    mine, other = Mine(), Mine()
    train(Task(), [mine, other])
    assert (mine.n_batches, other.n_batches) == (16, 16)


def test_with_another_release_hooks_are_left_alone_and_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    lightning_internals.print_untested.cache_clear()
    before = parts()
    watch = Watch()
    for _ in range(2):
        train(Task(), [watch])
        assert watch.during_fit == before
    printed = capsys.readouterr().out
    (line,) = printed.splitlines()
    assert "2.99.0" in line
    assert f"lightning=={lightning_internals.TESTED[-1]}.*" in line
