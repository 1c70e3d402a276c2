"""What a training tells: the line of an epoch, why it stopped, which settings have no effect."""

import re

import pytest
from attempts import attempt
from in_process import NO_ARGUMENTS
from labrig.project import Project
from labrig.training.check import check
from labrig.training.parts import settings
from omegaconf import OmegaConf

STOPPING = (
    "lightning.pytorch.callbacks.EarlyStopping, monitor: val/loss, patience: 1, min_delta: 99"
)
TUTORIAL = ("task._target_=attempts.Tutorial", "trainer.max_epochs=1")


def lines_of(capsys, beginning):
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(beginning)]


@pytest.mark.slow
def test_the_line_of_an_epoch_has_its_mean(home, tmp_path, capsys):
    """Not that of its last few batches; also when the epoch was resumed."""
    whole = attempt(home, tmp_path / "whole", "trainer.max_epochs=1")
    attempt(home, tmp_path / "parts", "trainer.max_epochs=1", stop="train:7")
    attempt(home, tmp_path / "parts", "trainer.max_epochs=1")
    rows = {row["step"]: row["train/acc"] for row in whole.rows if "train/acc" in row}
    assert sorted(rows) == [4, 8, 12, 16, 20, 23]
    n_right = sum(256 * rows[step] for step in (4, 8, 12, 16, 20)) + (1438 - 1280) * rows[23]
    for line in lines_of(capsys, "epoch 1/1"):
        assert f"train/acc {n_right / 1438:.4f}  " in line
        assert re.search(r"val/acc .* val/loss ", line)


@pytest.mark.slow
def test_batches_that_are_limited_are_no_subset_and_a_fraction_is(home, tmp_path, capsys):
    short = ("trainer.max_epochs=2", "trainer.limit_val_batches=1", "trainer.test_after_fit=false")
    attempt(home, tmp_path / "limited", *short, "trainer.limit_train_batches=2")
    said = "trainer.limit_train_batches=2: other samples in each epoch. "
    assert lines_of(capsys, said) == [f"{said}The same in all: data.fraction=0.1"]
    run = attempt(home, tmp_path / "part", *short, "data.fraction=0.1", "data.stratify=y")
    printed = capsys.readouterr().out
    assert ", 3 batches an epoch" in printed
    assert "limit_train_batches" not in printed
    assert run.start["data"]["rows"].keys() == {"train"}


@pytest.mark.slow
def test_early_stopping_says_when_and_why(home, tmp_path, capsys):
    stopping = f"+callbacks.early={{_target_: {STOPPING}}}"
    attempt(home, tmp_path, "trainer.max_epochs=9", stopping)
    (line,) = lines_of(capsys, "stopped early")
    assert line.startswith("stopped early after epoch 2: ")
    assert "val/loss did not improve in the last 1 records. Best score: " in line


@pytest.mark.slow
def test_a_tutorials_metric_is_in_the_line_and_its_unused_settings_are_reported(
    home, tmp_path, capsys
):
    """The default monitor is val/loss, with a slash; an own bound is misspelt; it takes no optimizer."""
    settings = (*TUTORIAL, "optimizer.lr=5", "+log.bounds.val_los=[0,1000]")
    attempt(home, tmp_path, *settings)
    lines = capsys.readouterr().out.splitlines()
    (epoch,) = [line for line in lines if line.startswith("epoch 1/1")]
    assert "val_loss " in epoch
    told = "\n".join(line for line in lines if line.startswith("lab: "))
    for part in (
        "optimizer.lr=5 has no effect: Tutorial.__init__ has no argument 'optimizer'. "
        "It trains with Adam.",
        "the section schedule (labrig.task.warmup_cosine) has no effect: Tutorial.__init__ has no "
        "argument 'schedule'. It trains with none.",
        "the section model (attempts.Net) has no effect: Tutorial.__init__ has no argument 'model'",
        "checkpoint.monitor is 'val/loss', which nobody logs; did you mean: val_loss",
        "log.bounds.val_los has no effect: no metric ends in 'val_los'; did you mean: val_loss",
    ):
        assert told.count(part) == 1
    assert told.count("lab: ") == 5, "the bounds of the template are not told"


@pytest.mark.slow
@pytest.mark.parametrize(("monitor", "is_told"), [("val/los", True), ("val/loss", False)])
def test_the_check_tells_them_too(home, capsys, monitor, is_told):
    overrides = [*NO_ARGUMENTS, "model._target_=attempts.Net", "trainer=cpu"]
    check(Project(home, "myproj"), [*overrides, f"checkpoint.monitor={monitor}"])
    told = "checkpoint.monitor is 'val/los', which nobody logs; did you mean: val/loss"
    assert (told in capsys.readouterr().out) is is_told


def test_the_number_of_threads_is_told_once_a_project(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(settings, "cores", lambda: 8)
    for n_threads, told in ((2, True), (2, False), (4, True), (8, False)):
        paths = {"runs": str(tmp_path / "runs")}
        settings.print_fewer_threads(
            OmegaConf.create({"trainer": {"threads": n_threads}, "paths": paths})
        )
        assert (f"To pin it: trainer.threads={n_threads}" in capsys.readouterr().out) == told
