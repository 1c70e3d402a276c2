"""Sums of an epoch, of `self.log(on_epoch=True)` and of torchmetrics, are the same to the last digit after a stop."""

import json
from pathlib import Path

import lightning
import lightning.pytorch as L
import pytest
import torch
from attempts import Net, attempt, attempts
from labrig.record.files.checkpoint_hashes import HASHES
from labrig.training import lightning_internals
from labrig.training.lightning_internals_sums import metrics_of
from projects import call
from torch import nn
from torchmetrics import MaxMetric, MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score, MulticlassPrecision
from torchmetrics.wrappers import MinMaxMetric, Running
from trainings import SHORT, add_trial, last


def accuracy(**options):
    return MulticlassAccuracy(10, **options)


class Seen(L.Callback):
    """Counts with metrics of its own, in a list."""

    def __init__(self):
        self.metrics = [MeanMetric(), accuracy()]

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx):
        self.metrics[0].update(batch[1].float())

    def on_train_epoch_end(self, trainer, task):
        task.log("seen", self.metrics[0].compute())
        self.metrics[0].reset()


class Summing(L.LightningModule):
    """Logs in each of the ways that Lightning and torchmetrics offer."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.train_acc = accuracy(average="micro")
        self.own_mean = MeanMetric()
        self.running = Running(MeanMetric(), window=3)
        self.bounds = MinMaxMetric(MeanMetric())
        # Those of one group share their state; so do their copies in a checkpoint.
        self.many = MetricCollection(
            {"acc": accuracy(), "precision": MulticlassPrecision(10), "f1": MulticlassF1Score(10)},
            prefix="many/",
        )
        self.val_acc = accuracy()
        self.by_hand = accuracy()
        self.best = MaxMetric()
        self.register_buffer("average", torch.zeros(10))

    def on_train_start(self):
        """As lightning-hydra-template does, against what a sanity check leaves."""
        self.val_acc.reset()
        self.best.reset()

    def on_train_epoch_start(self):
        self.log("began", torch.rand(()))

    def training_step(self, batch, batch_idx):
        image, label = batch
        score = self.net(image)
        loss = nn.functional.cross_entropy(score, label)
        self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log("largest", loss, on_step=False, on_epoch=True, reduce_fx="max")
        self.log("total", loss.double(), on_step=False, on_epoch=True, reduce_fx=sum)
        if batch_idx == 1:
            self.log("second", loss, on_step=False, on_epoch=True, sync_dist=True)
        self.train_acc(score, label)
        self.log("train_acc", self.train_acc, on_step=True, on_epoch=True)
        self.own_mean.update(loss.detach())
        self.running.update(loss.detach())
        self.bounds(loss.detach())
        self.many.update(score, label)
        self.log_dict(self.many, on_step=False, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.average.lerp_(self.net[4].bias.detach(), 0.1)
        self.log("average", self.average.sum(), on_step=True, on_epoch=True)

    def on_train_epoch_end(self):
        self.log("own", self.own_mean.compute())
        self.log("last_three", self.running.compute())
        self.log("smallest", self.bounds.compute()["min"])
        self.own_mean.reset()

    def validation_step(self, batch, batch_idx):
        image, label = batch
        score = self.net(image)
        self.val_acc(score, label)
        self.by_hand.update(score, label)
        self.log("val_acc", self.val_acc)

    def on_validation_epoch_end(self):
        acc = self.by_hand.compute()
        self.best(acc)
        self.log("by_hand", acc)
        self.log("best", self.best.compute())
        self.by_hand.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


TASK = (
    "task._target_=test_epoch_sums.Summing",
    "+callbacks.seen={_target_: test_epoch_sums.Seen}",
    "trainer.max_epochs=3",
    "trainer.limit_train_batches=8",
    "checkpoint.monitor=null",
)
STOPS = {
    "middle": ["train:4"],
    "first and last batch": ["train:1", "train:8", "train:10"],
    "ends": ["epoch:0", "train:11", "epoch:1"],
    "validation": ["val:2", "val:1", "train:12", "val:3"],
}


@pytest.fixture(scope="module")
def whole(home, tmp_path_factory):
    return attempt(home, tmp_path_factory.mktemp("whole"), *TASK)


@pytest.mark.slow
@pytest.mark.parametrize("where", STOPS)
def test_sums_continue_after_a_stop(home, tmp_path, whole, where):
    parts = attempts(home, tmp_path, *TASK, stops=STOPS[where])
    assert whole.differences(parts) == []
    assert (parts.start["exact"], parts.start["inexact_because"]) == (True, [])
    assert whole.metrics == parts.metrics
    assert {"train_loss_epoch", "train_acc_epoch", "many/f1", "best", "seen"} <= set(whole.metrics)


@pytest.mark.release
@pytest.mark.slow
def test_with_validations_within_an_epoch(home, tmp_path):
    settings = (*TASK, "trainer.check_val_every_n_epoch=2", "trainer.max_epochs=5")
    whole = attempt(home, tmp_path / "whole", *settings)
    parts = attempts(home, tmp_path / "parts", *settings, stops=["train:20", "val:1", "epoch:3"])
    assert whole.differences(parts) == []
    assert whole.metrics == parts.metrics, "also those of a validation before the stop"


@pytest.mark.slow
def test_with_another_release_of_lightning_the_record_says_so(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    lightning_internals.print_untested.cache_clear()
    parts = attempts(home, tmp_path, *TASK, "trainer.max_epochs=1", stops=["train:4"])
    reason = "the sums of self.log(on_epoch=True) begin again with this Lightning"
    hook = "the checkpoint is of before on_train_batch_end of Summing"
    assert parts.start["inexact_because"] == [reason, hook]
    assert reason in capsys.readouterr().out


@pytest.mark.slow
def test_a_checkpoint_of_before_says_so(home, tmp_path):
    attempt(home, tmp_path, *TASK, stop="train:4")
    file = tmp_path / "checkpoints/last.ckpt"
    content = torch.load(file, weights_only=True)
    del content["sums"]
    torch.save(content, file)
    (tmp_path / "checkpoints" / HASHES).unlink()
    resumed = attempt(home, tmp_path, *TASK)
    (reason,) = resumed.start["inexact_because"]
    assert "no sums of its epoch" in reason


@pytest.mark.slow
def test_a_checkpoint_between_two_stops_says_what_it_lacks(home, tmp_path):
    """One is saved every `checkpoint.every_min`, before the module has seen the end of the batch."""
    attempt(home, tmp_path, *TASK, "checkpoint.every_min=0", stop="train:6")
    (tmp_path / "checkpoints/last.ckpt").unlink()  # as if it were killed after the one before
    resumed = attempt(home, tmp_path, *TASK)
    assert resumed.start["inexact_because"] == [
        "the checkpoint is of before on_train_batch_end of Summing"
    ]


@pytest.mark.release
def test_each_of_two_ranks_continues_its_sums(home):
    folder = Path(__file__)
    add_trial(
        home,
        "summing",
        config_yaml="task:\n  _target_: .task.Summing\n",
        task_py=f"import sys\nsys.path[:0] = [{str(folder.parent)!r}, {str(folder.parents[1] / 'helpers')!r}]\n"
        "from test_epoch_sums import Summing as _Summing\n\n\nclass Summing(_Summing):\n    pass\n",
    )
    settings = ("trial=summing", *SHORT, "trainer.devices=2", "trainer.limit_train_batches=6")
    call(home, "lab", "train", *settings, "record.code=warn")
    whole = last(home)
    call(home, "lab", "train", *settings, "record.code=warn", rc=130, LAB_STOP_STEP="4")
    call(home, "lab", "resume", "@last")
    parts = last(home)
    assert parts["run_id"] != whole["run_id"]
    start = json.loads(Path(parts["run_dir"], "attempts/2/start.json").read_text())
    assert start["exact"], start["inexact_because"]
    assert whole["metrics"] == parts["metrics"]


def test_a_callback_may_keep_a_list_that_holds_itself():
    """`self.callbacks = trainer.callbacks` is what plain Lightning takes."""
    keeper = Seen()
    others = [keeper, Seen()]
    keeper.callbacks = others
    keeper.by_name = {"all": others}
    found = metrics_of({"keeper": keeper})
    assert len(found) == 4
    assert {id(one) for one in keeper.metrics} < {id(one) for one in found.values()}
