"""What tables print of a real trial, computed again from what `lab predict` writes."""

import json
import re
from pathlib import Path

import h5py
import pytest
from labrig.machine.text_formats import format_mean
from projects import call

pytestmark = pytest.mark.slow
SHORT = ("trial=baseline", "trainer=cpu", "trainer.max_epochs=1", "trainer.threads=1")
FIRST_IS_BEST = ("checkpoint.monitor=val/loss", "checkpoint.mode=max", "trainer.max_epochs=3")


def runs_of(home, *filters):
    return json.loads(call(home, "lab", "runs", "list", *filters, "--json"))


def accuracy(home, run, split="test", *words):
    """The share of samples that a run predicts rightly, from the file of its predictions."""
    call(home, "lab", "predict", run["run_id"], f"split={split}", *words)
    newest = Path(run["run_dir"], "predictions.jsonl").read_text().splitlines()[-1]
    file = Path(run["run_dir"], json.loads(newest)["path"])
    with h5py.File(home / "data/digits.h5") as data, h5py.File(file) as predicted:
        label = data["data/y"][:][predicted["data/row"][:]]
        return float((predicted["data/class"][:] == label).mean())


def cell(home, metric, *words):
    """The one number of a table: its mean and deviation as they are printed."""
    printed = call(home, "lab", "runs", "table", *words, "--metric", metric)
    (number,) = re.findall(r"^baseline .*?([\d.]+(?: ± [\d.]+)?) +\d+$", printed, re.M)
    return number


def test_three_seeds_and_what_tells_two_of_them_apart(home):
    call(home, "lab", "train", *SHORT, "optimizer.lr=0.00217", "seed=0,1,2", "-m")
    runs = runs_of(home, "optimizer.lr=0.00217")
    second, first = runs[:2]
    shares = [accuracy(home, second)]  # the first has no predictions yet
    said = call(
        home, "lab", "runs", "compare", first["run_id"], second["run_id"], "--metric", "acc"
    )
    assert "test/acc over 180 samples, with its 95% interval (bootstrap)" in said
    assert "lab: test/acc is" not in said, "the record has the same numbers"
    shares += [accuracy(home, run) for run in runs[1:]]
    for run, share in zip(runs[:2], shares, strict=False):
        assert re.search(rf"{run['run_id']}  baseline  {share:.4g} \(", said)
    n_first, n_second = map(
        int, re.search(r"alone (\d+), in the second alone (\d+)", said).groups()
    )
    assert (n_second - n_first) / 180 == pytest.approx(shares[0] - shares[1])
    assert cell(home, "test/acc", "optimizer.lr=0.00217") == format_mean(shares)


def test_folds(home):
    call(home, "lab", "train", *SHORT, "data.folds=3", "data.fold=0,1,2", "seed=5", "-m")
    shares = [accuracy(home, run, "val") for run in runs_of(home, "seed=5")]
    assert len(shares) == 3
    assert cell(home, "val/acc", "seed=5", "--over", "fold") == format_mean(shares)


def test_early_stopping_and_the_best_weights_of_another_run(home):
    patience = "callbacks.early_stopping.patience=1"
    call(
        home, "lab", "train", *SHORT, *FIRST_IS_BEST, "callbacks=early_stopping", patience, "seed=6"
    )
    call(home, "lab", "train", *SHORT, *FIRST_IS_BEST, "seed=7")
    (stopped,) = runs_of(home, "seed=6")
    (whole,) = runs_of(home, "seed=7")
    best = accuracy(home, stopped)
    assert cell(home, "test/acc", "seed=6") == format_mean([best])
    assert accuracy(home, stopped, "test", "--checkpoint", "last") != best
    assert cell(home, "test/acc", "seed=7") == format_mean([accuracy(home, whole)])
    call(home, "lab", "eval", whole["run_id"], "--checkpoint", "best")
    best = accuracy(home, whole, "test", "--checkpoint", "best")
    assert cell(home, "test/acc_best", "seed=7") == format_mean([best])
    assert best != accuracy(home, whole)
