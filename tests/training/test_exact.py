"""A run that was stopped anywhere ends with the weights, the optimizer and the rows of one that was not.

The network has dropout and the data random augmentation, so each number that is drawn twice, or not at all, shows.
"""

from types import SimpleNamespace

import pytest
import torch
from attempts import Tutorial, attempt, attempts
from labrig.errors import LabError
from labrig.training.exact.unsaved import UNSAVED, Unsaved
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor

EPOCHS = ("trainer.max_epochs=2",)
PLAIN = (*EPOCHS, "data._target_=attempts.PlainData")  # 14 batches an epoch
IN_WORKERS = (*PLAIN, "data.num_workers=2")
STEPS = ("trainer.max_epochs=-1", "trainer.max_steps=40")  # 23 batches an epoch
CASES = {
    # Three stops in the same validation, which begins again each time.
    "file": (EPOCHS, [["train:23"], ["train:7", "train:30", "val:1"], ["val:2", "val:1", "val:3"]]),
    "plain": (PLAIN, [["train:7", "epoch:0", "train:20", "val:1"]]),
    "own generator": ((*PLAIN, "data.path=own seed"), [["train:7", "epoch:0", "train:16"]]),
    "workers": (IN_WORKERS, [["train:7", "epoch:0"], ["val:2"]]),
    "workers that stay": ((*IN_WORKERS, "data.path=persistent"), [["train:7", "epoch:0"]]),
    "two loaders": ((*PLAIN, "data.path=second"), [["train:7", "epoch:0"]]),
    "steps": (STEPS, [["epoch:0", "train:27"], ["train:40"], ["val:2"]]),
    # What a user sets of Lightning's Trainer.
    "validations within epochs": (
        (*EPOCHS, "trainer.val_check_interval=5", "trainer.num_sanity_val_steps=2"),
        [["train:7", "val:3", "train:15"], ["val:6", "val:9"]],
    ),
    "validations of a share": ((*PLAIN, "trainer.val_check_interval=0.3"), [["train:7", "val:5"]]),
    "validations across epochs": (
        (*PLAIN, "trainer.val_check_interval=9", "trainer.check_val_every_n_epoch=null"),
        [["train:7", "epoch:0", "val:4"]],
    ),
    "validations of gradients that wait": (
        (*PLAIN, "trainer.val_check_interval=3", "trainer.accumulate_grad_batches=2"),
        [["train:2", "val:1", "val:4"]],
    ),
    # 7 steps an epoch: of the second one the fifth, and the end.
    "validations by steps": (
        (*PLAIN, "trainer.val_every_steps=5", "trainer.accumulate_grad_batches=2"),
        [["train:3", "val:2", "epoch:0", "val:1", "train:12", "val:2"]],
    ),
    "validations by steps, to max_steps": (
        (*STEPS, "trainer.val_every_steps=15"),
        [["val:2", "train:31", "epoch:1", "val:2"]],
    ),
    "loaders made anew": (
        (*PLAIN, "trainer.reload_dataloaders_every_n_epochs=1"),
        [["train:7", "epoch:0", "train:20"]],
    ),
    "overfit": (("trainer.max_epochs=4", "trainer.overfit_batches=3"), [["train:2", "train:7"]]),
    "overfit own data": (
        ("trainer.max_epochs=4", *PLAIN[1:], "trainer.overfit_batches=3"),
        [["train:2", "train:7"]],
    ),
    "steps of whole epochs": ((*STEPS[:1], "trainer.max_steps=46"), [["val:4"], ["train:46"]]),
}
QUICK = ("file", "workers", "steps", "validations within epochs")
WITH_MARKS = [
    case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES
]


@pytest.mark.slow
@pytest.mark.parametrize("case", WITH_MARKS)
def test_a_stop_changes_nothing(home, tmp_path, case):
    settings, runs = CASES[case]
    whole = attempt(home, tmp_path / "whole", *settings)
    assert not whole.was_stopped
    assert "exact" not in whole.start, "nothing was resumed"
    for stops in runs:
        parts = attempts(home, tmp_path / "-".join(stops), *settings, stops=stops)
        assert whole.differences(parts) == [], f"stopped at {stops}"


@pytest.mark.release
@pytest.mark.slow
def test_workers_of_a_data_file_change_nothing(home, tmp_path):
    """Neither without a stop nor with stops: the run in workers is compared with one without."""
    whole = attempt(home, tmp_path / "whole", *EPOCHS)
    stops = ["train:7", "epoch:0", "val:2"]
    parts = attempts(home, tmp_path / "parts", *EPOCHS, "data.num_workers=2", stops=stops)
    assert whole.differences(parts) == []
    assert (parts.start["exact"], parts.start["inexact_because"]) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("stream", "IterableDataset"),
        ("sampler", "OwnSampler may keep random numbers of its own"),
        ("generator", "Rows has a random generator of its own"),
        ("iterable", "Batches has no state_dict"),
    ],
)
def test_the_record_says_when_an_attempt_may_not_be_exact(home, tmp_path, capsys, kind, reason):
    # A stream has no length that a schedule could follow.
    settings = (*PLAIN, f"data.path={kind}", "schedule=constant")
    attempt(home, tmp_path, *settings, stop="train:7")
    resumed = attempt(home, tmp_path, *settings)
    assert resumed.start["exact"] is False
    (said,) = resumed.start["inexact_because"]
    assert reason in said
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "bit for bit" in line]
    assert said in line


@pytest.mark.slow
def test_a_longer_run_with_a_schedule_of_the_old_length_is_refused(home, tmp_path):
    settings = ("trainer.limit_train_batches=4", "schedule=onecycle", "optimizer=sgd")
    attempt(home, tmp_path, *settings, "trainer.max_epochs=2", stop="train:5")
    with pytest.raises(LabError, match=r"OneCycleLR .*total_steps 8 before, 16 now"):
        attempt(home, tmp_path, *settings, "trainer.max_epochs=4")


@pytest.mark.slow
def test_a_longer_run_along_a_closed_form_says_that_its_curve_is_another(home, tmp_path):
    settings = ("trainer.limit_train_batches=4", "schedule=cosine")
    attempt(home, tmp_path, *settings, "trainer.max_epochs=2")
    longer = attempt(home, tmp_path, *settings, "trainer.max_epochs=4")
    assert longer.start["exact"] is False
    assert any("ends at another step now" in one for one in longer.start["inexact_because"])


class Forgetful(Tutorial):
    """Keeps numbers that change, and that its state_dict leaves out."""

    def __init__(self):
        super().__init__()
        self.n_seen = 0
        self.fixed = [1, 2]
        self.register_buffer("mean", torch.zeros(2), persistent=False)

    def training_step(self, batch, batch_idx):
        self.n_seen += len(batch[1])
        self.mean += 1
        return super().training_step(batch, batch_idx)


@pytest.mark.slow
def test_what_no_checkpoint_holds_is_named(home, tmp_path):
    settings = ("trainer.max_epochs=1", "task._target_=test_exact.Forgetful")
    attempt(home, tmp_path, *settings, stop="train:7")
    resumed = attempt(home, tmp_path, *settings)
    assert resumed.start["exact"] is False
    said = "; ".join(resumed.start["inexact_because"])
    assert "Forgetful.n_seen" in said
    assert "Forgetful.mean (persistent=False)" in said
    assert "fixed" not in said


class ByHand(Tutorial):
    """Accumulates the gradients of three batches."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        image, label = batch
        loss = torch.nn.functional.cross_entropy(self.net(image), label)
        self.manual_backward(loss)
        if batch_idx % 3 == 2:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.slow
def test_a_stop_waits_for_gradients_that_a_task_accumulates_by_hand(home, tmp_path):
    settings = ("trainer.max_epochs=1", "task._target_=test_exact.ByHand")
    whole = attempt(home, tmp_path / "whole", *settings)
    parts = attempts(home, tmp_path / "parts", *settings, stops=["train:5"])
    assert whole.differences(parts) == []
    assert parts.start["exact"] is True


class CountsMore(EarlyStopping):
    n_asked = 0


class Monitor(LearningRateMonitor):
    pass


class SaysAll(Monitor):
    n_asked = 0

    def state_dict(self):
        return {}


def test_what_lightning_sets_in_a_callback_is_no_reason(tmp_path):
    """A subclass of Lightning's callback: what its own code adds counts, unless it has a state_dict."""
    callbacks = [CountsMore("loss"), Monitor(), SaysAll()]
    trainer = SimpleNamespace(lightning_module=Tutorial(), datamodule=None)
    unsaved, checkpoint = Unsaved(callbacks), {}
    unsaved.on_train_start(trainer, trainer.lightning_module)
    for callback in callbacks:
        callback.n_asked = 1
    callbacks[0].wait_count = callbacks[0].stopped_epoch = 3
    callbacks[1].lrs = callbacks[2].lrs = {"adam": [0.1]}
    callbacks[1].last_momentum_values = {"adam": 0.9}
    unsaved.on_save_checkpoint(trainer, trainer.lightning_module, checkpoint)
    assert checkpoint[UNSAVED] == ["CountsMore.n_asked", "Monitor.n_asked"]
