"""The lean loop does what Lightning's loop does: weights, rows, counters, and the order of all calls."""

from dataclasses import dataclass, field

import lightning
import lightning.pytorch as L
import pytest
import torch
from labrig.bench.chronometer import Chronometer
from labrig.training import lightning_internals
from labrig.training.exact.preemption import PreemptionCallback
from labrig.training.lightning_internals import Internals, loop_line
from lean_tasks import (
    AdamOfTwoGroups,
    AdamTask,
    AdamThatForgets,
    AdamThatIsWrapped,
    AdamWithAHook,
    AdamWithoutAGradient,
    AdamWTask,
    FusedTask,
    Task,
    TaskOfManyClosures,
    TaskOfTensors,
    TaskThatKeepsGradients,
    TaskThatLogs,
    TaskThatSkips,
    TaskThatStepsItself,
    TaskThatWaits,
    TaskWithEpochSchedules,
    TaskWithHooks,
    TaskWithNorm,
    TaskWithSchedules,
    UnfusedTask,
)
from lightning.pytorch import callbacks as stock
from lightning.pytorch.plugins import MixedPrecision
from omegaconf import OmegaConf
from projects import call
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from trainings import SHORT, last, rows

N_BATCHES = 8
HOOKS = (
    *("on_train_batch_start", "on_train_batch_end", "on_before_zero_grad", "on_before_backward"),
    *("on_after_backward", "on_before_optimizer_step", "on_train_epoch_start"),
    *("on_train_epoch_end", "on_validation_start", "on_validation_batch_end", "on_validation_end"),
)


def listener():
    """A callback that notes every hook, with the counters that it finds."""

    def note(name):
        def hook(self, trainer, module, *args):
            loop = trainer.fit_loop.epoch_loop
            counts = str(loop.batch_progress), str(loop.scheduler_progress)
            steps = str(loop.automatic_optimization.optim_progress), loop._batches_that_stepped
            module.note("callback", name, counts, steps)
            if name == "on_train_batch_end" and args[0]:
                module.calls.append(sorted((key, float(value)) for key, value in args[0].items()))

        return hook

    return type("Listener", (L.Callback,), {name: note(name) for name in HOOKS})()


class Endless(IterableDataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __iter__(self):
        return iter(self.pairs)


class Data(L.LightningDataModule):
    def __init__(self, task, has_length=True):
        super().__init__()
        self.task, self.has_length = task, has_length

    def train_dataloader(self):
        x = torch.randn(4 * N_BATCHES, 4, generator=torch.Generator().manual_seed(0))
        pairs = list(zip(x, (x[:, 0] > 0).long(), strict=True))
        return DataLoader(pairs if self.has_length else Endless(pairs), batch_size=4)

    val_dataloader = train_dataloader

    def on_after_batch_transfer(self, batch, dataloader_idx):
        self.task.note("data", "on_after_batch_transfer")
        return batch


class Rows(L.loggers.Logger):
    name, version = "rows", 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, *_, **__):
        pass


def train(task, callbacks=(), lean="auto", resume=None, has_length=True, **settings):
    """Trains and gives the Trainer."""
    torch.manual_seed(1)
    if "plugins" in settings:
        settings["plugins"] = settings["plugins"]()
    speed = OmegaConf.create({"lean_loop": lean, "compile": None})
    arguments = {"max_epochs": 2, "logger": Rows(), "log_every_n_steps": 3, **settings}
    trainer = L.Trainer(
        accelerator="cpu",
        enable_checkpointing=any(isinstance(one, stock.ModelCheckpoint) for one in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[*callbacks, Internals(speed)],
        **arguments,
    )
    trainer.fit(task, datamodule=Data(task, has_length), ckpt_path=resume)
    return trainer


def outcome(task, trainer):
    """All that a training leaves."""
    progress = trainer.fit_loop.state_dict()
    rows = trainer.logger.rows if isinstance(trainer.logger, Rows) else []
    return {
        "calls": task.calls,
        "rows": rows,
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "weights": {name: value.tolist() for name, value in task.state_dict().items()},
        "counters": str(progress),
        "step": trainer.global_step,
        "optimizer": str(trainer.optimizers[0].state_dict()),
    }


def both(make_task, make_callbacks=lambda: (), expected_lean=True, **settings):
    """Trains with the lean loop and with Lightning's, and gives all that both leave."""
    outcomes = []
    for lean in ("auto", False):
        task = make_task()
        trainer = train(task, [*make_callbacks(), listener()], lean, **settings)
        if lean:
            assert (loop_line(trainer) == "the lean loop") is expected_lean, loop_line(trainer)
        outcomes.append(outcome(task, trainer))
    ours, lightnings = outcomes
    assert len(ours["calls"]) > 40
    return ours, lightnings


def scaled():
    """16-mixed, which `precision` refuses on a CPU."""
    return [MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))]


CASES = {
    "a dict as output": (Task, {}),
    "a tensor as output, without batch_idx": (TaskOfTensors, {}),
    "self.log": (TaskThatLogs, {}),
    "no loss for one batch": (TaskThatSkips, {}),
    "gradients clipped by norm": (Task, {"gradient_clip_val": 0.01}),
    "gradients clipped by value": (
        Task,
        {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"},
    ),
    "gradients accumulated": (TaskThatLogs, {"accumulate_grad_batches": 3}),
    "hooks of the module": (TaskWithHooks, {}),
    "hooks of the module, accumulated": (TaskWithHooks, {"accumulate_grad_batches": 2}),
    "an own optimizer_step": (TaskThatStepsItself, {}),
    "a schedule by steps": (TaskWithSchedules, {}),
    "a schedule by steps, accumulated": (TaskWithSchedules, {"accumulate_grad_batches": 3}),
    "a schedule by epochs": (TaskWithEpochSchedules, {}),
    "a schedule by a metric": (TaskThatWaits, {}),
    "an optimizer that calls its closure again": (TaskOfManyClosures, {}),
    "an own zero_grad": (TaskThatKeepsGradients, {}),
    "bfloat16": (Task, {"precision": "bf16-mixed"}),
    "bfloat16, clipped": (Task, {"precision": "bf16-mixed", "gradient_clip_val": 0.01}),
    "float16 with its scale": (TaskWithHooks, {"plugins": scaled}),
    "float16, clipped": (Task, {"plugins": scaled, "gradient_clip_val": 0.01}),
    "float16, fused and clipped": (FusedTask, {"plugins": scaled, "gradient_clip_val": 0.01}),
    "validation within an epoch": (TaskThatLogs, {"val_check_interval": 3}),
    "validation by batches of all epochs": (
        Task,
        {"val_check_interval": 5, "check_val_every_n_epoch": None},
    ),
    "max_steps within an epoch": (TaskWithSchedules, {"max_steps": 11, "max_epochs": -1}),
    "few batches of an epoch": (Task, {"limit_train_batches": 5}),
    "no validation": (Task, {"limit_val_batches": 0}),
    "data without a length": (TaskThatLogs, {"has_length": False}),
    "data without a length, few batches": (Task, {"has_length": False, "limit_train_batches": 3}),
    "fast_dev_run": (TaskThatLogs, {"fast_dev_run": 20, "max_epochs": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_lean_step_is_lightnings_step(case):
    task_class, settings = CASES[case]
    lean, lightnings = both(task_class, **settings)
    assert lean == lightnings


ADAM = {  # and how many of the 16 steps torch makes
    AdamTask: 1,
    AdamWTask: 1,
    AdamThatForgets: 3,  # the first one, and in each epoch that without a state
    AdamOfTwoGroups: 16,
    AdamWithoutAGradient: 16,
    AdamWithAHook: 16,
    AdamThatIsWrapped: 16,
}


@pytest.mark.parametrize("task_class", ADAM)
def test_a_step_of_a_fused_adam_is_torchs(task_class, monkeypatch):
    begun, kind = [], task_class.kind
    begin = kind._init_group  # of each class: dynamo wraps that of both
    noted = lambda *words: (begun.append(words), begin(*words))[1]  # noqa: E731
    monkeypatch.setattr(kind, "_init_group", noted)
    lean, lightnings = both(task_class)
    assert lean == lightnings
    n_groups = task_class.n_groups
    assert len(begun) / n_groups - 16 == ADAM[task_class]


@pytest.mark.parametrize("lean", ["auto", False])
@pytest.mark.parametrize("task_class", [FusedTask, UnfusedTask])
def test_a_clipped_step_of_float16_is_as_long_as_the_limit(task_class, lean):
    """The scale is taken out once, before clipping, also of a fused optimizer."""
    task = task_class()
    before = nn.utils.parameters_to_vector(task.parameters()).detach().clone()
    train(task, lean=lean, plugins=scaled, gradient_clip_val=0.01, max_steps=1)
    step = nn.utils.parameters_to_vector(task.parameters()).detach() - before
    assert float(step.norm()) == pytest.approx(0.01, rel=0.01)


class Stops(L.Callback):
    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
        trainer.should_stop = trainer.should_stop or trainer.global_step == 6


class Changes(L.Callback):
    """Puts another callback next to itself in the second epoch."""

    def on_train_epoch_start(self, trainer, task):
        if trainer.current_epoch == 1:
            trainer.callbacks = [Stops(), *trainer.callbacks]


STOCK = {
    "accumulation that changes": lambda: [stock.GradientAccumulationScheduler({0: 1, 1: 3})],
    "averaged weights": lambda: [stock.StochasticWeightAveraging(0.01, swa_epoch_start=1)],
    "early stopping": lambda: [stock.EarlyStopping("checked", patience=0)],
    "a monitor of rates": lambda: [stock.LearningRateMonitor("step")],
    "a timer": lambda: [stock.Timer()],
    "a stop within an epoch": lambda: [Stops()],
    "callbacks that change": lambda: [Changes()],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STOCK)
@pytest.mark.parametrize("task_class", [TaskWithSchedules, TaskWithNorm])
def test_callbacks_see_the_same(name, task_class):
    lean, lightnings = both(task_class, STOCK[name], max_epochs=3)
    assert lean == lightnings


@pytest.mark.slow
@pytest.mark.parametrize("every", [3, 8, 11])
@pytest.mark.parametrize("task_class", [TaskWithSchedules, TaskThatLogs, TaskWithHooks])
def test_a_resumed_training_is_the_same(tmp_path, every, task_class):
    """From the middle of an epoch, from its end, and from the middle of the second one."""

    def saves():
        return [stock.ModelCheckpoint(tmp_path, every_n_train_steps=every, save_top_k=-1)]

    train(task_class(), saves(), False, max_steps=every, max_epochs=4)
    (checkpoint,) = tmp_path.glob("*.ckpt")
    lean, lightnings = both(task_class, resume=checkpoint, max_epochs=4, val_check_interval=4)
    assert lean == lightnings


class ByHand(Task):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


class TakesIterators(Task):
    def training_step(self, dataloader_iter):
        batch, _, _ = next(dataloader_iter)
        return self.loss(batch)


OTHERS = {
    "optimizes by hand": (ByHand, {}),
    "takes the batches itself": (TakesIterators, {}),
    "SimpleProfiler": (Task, {"profiler": "simple"}),
    "DoublePrecision": (Task, {"precision": "64-true"}),
}


@pytest.mark.parametrize("why", OTHERS)
def test_what_it_does_not_know_runs_lightnings_loop(why):
    task_class, settings = OTHERS[why]
    task = task_class()
    trainer = train(task, **settings)
    assert loop_line(trainer).startswith("Lightning's loop: ")
    assert why in loop_line(trainer)
    assert "advance" not in vars(trainer.fit_loop.epoch_loop)


def test_the_loop_comes_back_after_an_exception(tmp_path):
    class Failing(L.Callback):
        def on_train_batch_end(self, trainer, *_):
            self.loop = trainer.fit_loop.epoch_loop
            assert "advance" in vars(self.loop)
            raise RuntimeError("no more")

    failing, iterate = Failing(), DataLoader.__iter__
    with pytest.raises(RuntimeError, match="no more"):
        train(Task(), [failing, PreemptionCallback(tmp_path)])
    assert "advance" not in vars(failing.loop)
    assert "on_advance_end" not in vars(failing.loop)
    assert DataLoader.__iter__ is iterate


class Timed(L.Callback):
    def setup(self, trainer, pl_module, stage):
        trainer.profiler = Chronometer(trainer, n_steps=1000, accumulate=1)


def test_the_chronometer_times_lean_steps():
    trainer = train(Task(), [Timed()])
    assert loop_line(trainer) == "the lean loop"
    timed = [mark.part for mark in trainer.profiler.marks]
    # Two epochs of 8 batches, each part with its begin and end.
    parts = ("forward", "backward", "optimizer")
    assert [timed.count(part) for part in parts] == [4 * N_BATCHES] * 3
    # A fetch and a copy of each; the copies of two validations count as well.
    assert timed.count("load") == 12 * N_BATCHES


class DoublingData(Data):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] * 2, batch[1]]


def test_a_second_fit_calls_the_hooks_of_its_own_data():
    weights = []
    for lean in ("auto", False):
        task = Task()
        trainer = train(task, lean=lean)
        trainer.fit_loop.max_epochs = 4
        trainer.fit(task, datamodule=DoublingData(task))
        weights.append([p.tolist() for p in task.parameters()])
    assert weights[0] == weights[1]


@dataclass
class Mine(L.Callback):
    """A dataclass has `__eq__`, so it is not hashable; its tensor has no truth value when compared."""

    weight: torch.Tensor = field(default_factory=lambda: torch.ones(2))
    n_batches: int = 0

    def on_train_batch_end(self, *_):
        self.n_batches += 1


def test_a_callback_may_be_a_dataclass():
    mine, other = Mine(), Mine()
    train(Task(), [mine, other])
    assert (mine.n_batches, other.n_batches) == (16, 16)


def test_with_another_release_lightnings_loop_runs_and_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    lightning_internals.print_untested.cache_clear()
    for _ in range(2):
        assert "2.99.0 was not tested" in loop_line(train(Task()))
    (line,) = capsys.readouterr().out.splitlines()
    assert "2.99.0" in line
    assert f"lightning=={lightning_internals.TESTED[-1]}.*" in line


NOT_NUMBERS = ("time_unix_s", "attempt")


def numbers_of(record):
    """The rows of the metrics, and the weights."""
    kept = [{k: v for k, v in row.items() if k not in NOT_NUMBERS} for row in rows(record)]
    path = f"{record['run_dir']}/checkpoints/last.ckpt"
    return kept, torch.load(path, weights_only=True)


@pytest.mark.release
@pytest.mark.slow
def test_two_processes_with_accumulation_are_the_same(home):
    """Gradients are exchanged at the last of the batches that are accumulated, in both loops."""
    settings = ("trial=baseline", *SHORT, "trainer.devices=2", "trainer.accumulate_grad_batches=3")
    both = []
    for lean in ("auto", "false"):
        call(home, *("lab", "train"), *settings, "log.every_n_steps=1", f"speed.lean_loop={lean}")
        both.append(numbers_of(last(home)))
    (rows_lean, lean), (rows_of_lightning, lightnings) = both
    assert len(rows_lean) > 10
    assert rows_lean == rows_of_lightning
    assert str(lean["loops"]) == str(lightnings["loops"])
    assert str(lean["optimizer_states"]) == str(lightnings["optimizer_states"])
    assert all(
        torch.equal(value, lightnings["state_dict"][k]) for k, value in lean["state_dict"].items()
    )
