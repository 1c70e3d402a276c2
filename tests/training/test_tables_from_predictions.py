"""What tables print of a real trial, computed again from what `lab predict` writes."""

import json
import re
from pathlib import Path

import h5py
import pytest
from labrig.machine.text_formats import format_mean
from projects import call

pytestmark = pytest.mark.slow
# The project is shared with tests of other files: only these runs have these learning rates.
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


@pytest.mark.release
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


@pytest.mark.release
def test_folds(home):
    rate = "optimizer.lr=0.00218"
    call(home, "lab", "train", *SHORT, "data.folds=3", "data.fold=0,1,2", rate, "-m")
    shares = [accuracy(home, run, "val") for run in runs_of(home, rate)]
    assert len(shares) == 3
    assert cell(home, "val/acc", rate, "--over", "fold") == format_mean(shares)


@pytest.mark.release
def test_early_stopping_and_the_best_weights_of_another_run(home):
    early, late = "optimizer.lr=0.00219", "optimizer.lr=0.00221"
    patience = ("callbacks=early_stopping", "callbacks.early_stopping.patience=1")
    call(home, "lab", "train", *SHORT, *FIRST_IS_BEST, *patience, early)
    call(home, "lab", "train", *SHORT, *FIRST_IS_BEST, late)
    (stopped,) = runs_of(home, early)
    (whole,) = runs_of(home, late)
    best = accuracy(home, stopped)
    assert cell(home, "test/acc", early) == format_mean([best])
    assert accuracy(home, stopped, "test", "--checkpoint", "last") != best
    assert cell(home, "test/acc", late) == format_mean([accuracy(home, whole)])
    call(home, "lab", "eval", whole["run_id"], "--checkpoint", "best")
    best = accuracy(home, whole, "test", "--checkpoint", "best")
    assert cell(home, "test/acc_best", late) == format_mean([best])
    assert best != accuracy(home, whole)
