"""Metrics that a task logs itself, under any name: they are shown, and stand once in a row."""

from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from attempts import Net, attempt
from labrig.record.read.ranking import main_first, split_of
from projects import call
from report_page import table_of
from torch import nn
from trainings import SHORT, add_trial, last

EPOCH = ("trainer.max_epochs=1", "trainer.limit_train_batches=8", "checkpoint.monitor=null")


class Both(L.LightningModule):
    """Returns its loss, and logs another value under the name that it would get."""

    by_step = True

    def __init__(self):
        super().__init__()
        self.net = Net()

    def step(self, batch, name):
        image, label = batch
        loss = nn.functional.cross_entropy(self.net(image), label)
        by_step = self.by_step and name == "train"
        self.log(f"{name}/loss", loss.detach() + 100, on_step=by_step, on_epoch=not by_step)
        return {"loss": loss, "other": loss.detach()}

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        return self.step(batch, "test" if self.trainer.testing else "val")

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class BothByEpoch(Both):
    by_step = False


@pytest.mark.slow
@pytest.mark.parametrize(("task", "n_rows"), [("Both", 2), ("BothByEpoch", 1)])
def test_what_self_log_gives_stands_once(home, tmp_path, capsys, task, n_rows):
    run = attempt(home, tmp_path, *EPOCH, f"task._target_=test_own_metrics.{task}")
    said = capsys.readouterr().out
    for name in ("train", "val", "test"):
        values = [row[f"{name}/loss"] for row in run.rows if f"{name}/loss" in row]
        assert len(values) == (n_rows if name == "train" else 1)
        assert min(values) > 100, "the task's own"
        assert f"{name}/loss: logged by self.log" in said
        assert any(f"{name}/other" in row for row in run.rows), "only of the step's dict"
    assert run.metrics["test/loss"] > 100
    assert said.count("train/loss: logged by self.log") == 1


TUTORIAL = """
import sys

sys.path.insert(0, HELPERS)
from attempts import Tutorial as _Tutorial


class Tutorial(_Tutorial):
    def validation_step(self, batch, batch_idx):
        self.log_dict({"val_loss": self.training_step(batch, batch_idx), "val_n": 1.0})

    def test_step(self, batch, batch_idx):
        loss = self.training_step(batch, batch_idx)
        self.log_dict({"test_loss": loss, "Zeta of all": 0.25})
"""


@pytest.fixture(scope="module")
def tutorial(home):
    """What a run whose metrics have no slash printed, and its record."""
    helpers = str(Path(__file__).parents[1] / "helpers")
    config = "task:\n  _target_: .task.Tutorial\ncheckpoint:\n  monitor: val_loss\n"
    task = TUTORIAL.replace("HELPERS", repr(helpers))
    add_trial(home, "tutorial", config_yaml=config, task_py=task)
    printed = call(home, "lab", "train", "trial=tutorial", *SHORT, "record.code=warn")
    return printed, last(home)


def test_metrics_of_any_name_are_those_of_the_test(home, tutorial):
    printed, record = tutorial
    (line,) = [line for line in printed.splitlines() if line.startswith("finished")]
    loss = record["metrics"]["test_loss"]
    assert line == f"finished  test_loss {loss:.4f}  Zeta of all 0.2500  (weights: last.ckpt)"


@pytest.mark.slow
def test_they_are_shown_like_the_others(home, tutorial):
    run = tutorial[1]["run_id"]
    listed = call(home, "lab", "runs", "list", "trial=tutorial", COLUMNS="100")
    header = listed.splitlines()[0].split()
    assert header.index("val_loss") < header.index("test_loss")
    assert "test_loss" in call(home, "lab", "runs", "show", run)
    table = call(home, "lab", "runs", "table", "trial=tutorial", "--by", "seed")
    assert "test_loss" in table
    assert "val_loss" not in table
    page = home / "own-metrics.html"
    call(home, "lab", "report", "trial=tutorial", "-o", page)
    names = [metric["name"] for metric in table_of(page.read_text())["metrics"]]
    assert names.index("val_loss") < names.index("test_loss")


def test_the_main_ones_are_first_under_any_name():
    names = ["zeta", "test_loss", "train_loss_step", "val_acc", "Val/loss", "valid-loss"]
    assert main_first([*names, "zeta"]) == [
        *("Val/loss", "valid-loss", "val_acc", "test_loss"),
        *("zeta", "train_loss_step"),
    ]
    assert [split_of(name) for name in ("testing/x", "validation.y", "trainer", "value")] == [
        "test",
        "val",
        None,
        None,
    ]
