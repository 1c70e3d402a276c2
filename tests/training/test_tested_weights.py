"""What is tested is what last.ckpt holds, whatever a callback does to the weights when the training ends."""

from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as L
import pytest
import torch
from attempts import FolderOfRun, Net, Task, attempt, attempts, same
from in_process import NO_ARGUMENTS, composed
from labrig.errors import LabError
from labrig.project import Project
from labrig.record.read.attempt_files import read_attempts
from labrig.training.checkpoints.tested_weights import kind_of_weights
from labrig.training.trained.evaluate import evaluate
from torch import nn

EPOCHS = ("task._target_=attempts.Task", "trainer.max_epochs=3", "trainer.limit_train_batches=8")
CHANGED = "the weights were changed after the last step"


class Halved(L.Callback):
    """Halves the weights when the training ends.

    Args:
        hook: of L.Callback, in which it does so.
    """

    def __init__(self, hook):
        setattr(self, hook, self.halve)

    def halve(self, trainer, task):
        with torch.no_grad():
            for weight in task.parameters():
                weight.mul_(0.5)


class HalvedInTest(L.Callback):
    """Tests other weights than it trains, as many averages do."""

    def on_test_start(self, trainer, task):
        self.before = {name: value.clone() for name, value in task.state_dict().items()}
        Halved("setup").halve(trainer, task)

    def on_test_end(self, trainer, task):
        task.load_state_dict(self.before)


class Normed(nn.Sequential):
    """A network whose average needs another pass over the data, for its batch norm."""

    def __init__(self):
        super().__init__(*Net(), nn.BatchNorm1d(10))


class SavesHalves(Task):
    """Saves other weights than it tests."""

    def on_save_checkpoint(self, checkpoint):
        halves = {name: value / 2 for name, value in checkpoint["state_dict"].items()}
        checkpoint["state_dict"] = halves


AVERAGE = (
    "+callbacks.average={_target_: lightning.pytorch.callbacks.StochasticWeightAveraging, "
    "swa_lrs: 0.01, swa_epoch_start: 1}"
)
MOVING = "+callbacks.average={_target_: lightning.pytorch.callbacks.EMAWeightAveraging, decay: 0.9}"
AT_THE_END = {
    "average": [AVERAGE],
    "moving": [MOVING],
    "on_train_end": ["+callbacks.own={_target_: test_tested_weights.Halved, hook: on_train_end}"],
    "on_fit_end": ["+callbacks.own={_target_: test_tested_weights.Halved, hook: on_fit_end}"],
    "on_test_start": ["+callbacks.own={_target_: test_tested_weights.HalvedInTest}"],
    "batch norm": [AVERAGE, "model._target_=test_tested_weights.Normed"],
    "nothing": [],
}
QUICK = ("average", "on_fit_end")
KINDS = [
    kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in AT_THE_END
]


def evaluated(home, folder, *settings):
    """What `lab eval` says of the run in `folder`."""
    target = ("model._target_=attempts.Net", *settings)
    config = composed(home, *NO_ARGUMENTS, *target)
    project = Project(home, "myproj")
    return evaluate(project, config, FolderOfRun(folder), "last", None, None).metrics


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_tested_is_in_the_last_checkpoint(home, tmp_path, capsys, kind):
    settings = (*EPOCHS, *AT_THE_END[kind])
    run = attempt(home, tmp_path, *settings)
    said = capsys.readouterr().out
    assert (CHANGED in said) == (kind not in ("moving", "nothing", "batch norm"))
    assert run.metrics["test/loss"] == evaluated(home, tmp_path, *settings)["test/loss"]
    again = attempt(home, tmp_path, *settings)  # nothing is left to train; it is tested again
    assert again.metrics["test/loss"] == run.metrics["test/loss"]
    assert same(again.checkpoint["state_dict"], run.checkpoint["state_dict"])
    assert evaluated(home, tmp_path, *settings)["test/loss"] == run.metrics["test/loss"]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["average", "on_train_end"])
def test_a_run_that_was_stopped_tests_and_saves_the_same(home, tmp_path, kind):
    settings = (*EPOCHS, *AT_THE_END[kind])
    whole = attempt(home, tmp_path / "whole", *settings)
    parts = attempts(home, tmp_path / "parts", *settings, stops=["train:5", "epoch:1", "train:20"])
    assert whole.differences(parts) == []
    assert whole.metrics == parts.metrics
    said = evaluated(home, tmp_path / "parts", *settings)
    assert parts.metrics["test/loss"] == said["test/loss"]


@pytest.mark.slow
def test_more_epochs_continue_from_the_weights_of_the_last_step(home, tmp_path):
    own = AT_THE_END["on_train_end"]
    constant = "schedule=constant"
    plain = attempt(home, tmp_path / "plain", *EPOCHS, constant)
    for epochs in (2, 3):
        run = attempt(
            home, tmp_path / "more", *EPOCHS, *own, constant, f"trainer.max_epochs={epochs}"
        )
    halves = {name: value / 2 for name, value in plain.checkpoint["state_dict"].items()}
    assert same(run.checkpoint["state_dict"], halves)
    assert same(run.checkpoint["state_dict_of_last_step"], plain.checkpoint["state_dict"])


@pytest.mark.slow
def test_a_task_that_saves_other_weights_than_it_tests_is_told(home, tmp_path, capsys):
    settings = (*EPOCHS, "task._target_=test_tested_weights.SavesHalves")
    run = attempt(home, tmp_path, *settings)
    said = capsys.readouterr().out
    assert "on_save_checkpoint of SavesHalves or of a callback saves other weights" in said
    assert "state_dict_of_last_step" not in run.checkpoint


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["trainer.max_epochs=0", "trainer.limit_train_batches=0"])
def test_a_training_without_a_step_is_an_error(home, tmp_path, setting):
    with pytest.raises(LabError, match="nothing was trained: "):
        attempt(home, tmp_path, setting, "schedule=constant")


class Asked:
    """As much of a Trainer as says which weights are tested."""

    def __init__(self, ckpt_path, *best):
        self.ckpt_path = ckpt_path
        self.checkpoint_callbacks = [SimpleNamespace(best_model_path=path) for path in best]


@pytest.mark.parametrize(
    ("trainer", "kind"),
    [
        (Asked(None, "/a/epoch=3.ckpt"), "last"),
        (Asked("/a/epoch=3.ckpt", "/b/x.ckpt", "/a/epoch=3.ckpt"), "best"),
        (Asked("/a/best.ckpt"), "best"),
        (Asked(Path("/a/last.ckpt"), ""), "last"),
        (Asked("/a/other.ckpt", "/a/epoch=3.ckpt"), "other"),
    ],
)
def test_which_weights_are_tested_is_known(trainer, kind):
    assert kind_of_weights(trainer) == kind


def test_a_run_records_which_weights_were_tested_and_which_files_ran(home):
    """The kind of evaluation and the code, by which runs are one experiment."""
    first = min(home.glob("runs/baseline/*/summary.json")).parent
    start = read_attempts(first)[0].start
    assert start["tested_weights"] == "last"
    assert start["code"]["used"].keys() >= {
        f"src/myproj/{name}.py" for name in ("data", "task", "train", "trials/baseline/model")
    }
