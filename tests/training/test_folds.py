"""Five folds by a setting: trained, averaged, and their held-out predictions in one file."""

import json
import re

import h5py
import numpy as np
import pytest
from labrig import H5DataModule
from projects import call
from trainings import first, last

pytestmark = pytest.mark.slow
OWN = "optimizer.lr=0.00223"  # of no other run in the shared project
FOLDS = (
    "trial=baseline",
    "trainer=cpu",
    "trainer.max_epochs=1",
    "trainer.threads=1",
    OWN,
    "data.folds=3",
)


@pytest.fixture(scope="module")
def trained(home):
    call(home, "lab", "train", *FOLDS, "data.fold=0,1", "-m")
    return home


@pytest.mark.release
def test_folds_from_the_training_to_one_file_of_predictions(trained):
    refused = call(trained, "lab", "predict", "@last", "split=folds", rc=2)
    assert "fold 2 of 3 has no finished run with the code, settings and seed of" in refused
    call(trained, "lab", "train", *FOLDS, "data.fold=2")
    table = call(trained, "lab", "runs", "table", OWN, "--over", "data.fold")
    assert re.search(r"±", table)
    call(trained, "lab", "predict", "@last", "split=folds")
    run = last(trained)
    with open(f"{run['run_dir']}/predictions.jsonl") as file:
        row = json.loads(file.readlines()[-1])
    assert len(row["runs"]) == 3
    with (
        h5py.File(trained / "data/digits.h5") as data,
        h5py.File(f"{run['run_dir']}/{row['path']}") as predicted,
    ):
        divided = np.sort(np.concatenate([data["splits/train"], data["splits/val"]]))
        assert predicted["data/row"][:].tolist() == divided.tolist(), "each sample once"
        # The mean over the samples is that of the folds, weighted by their sizes.
        right = predicted["data/class"][:] == data["data/y"][:][divided]
        sizes = [np.sum(np.arange(len(divided)) % 3 == fold) for fold in range(3)]
    rows = json.loads(call(trained, "lab", "runs", "list", OWN, "--json"))
    by_fold = {}
    for of_run in rows:
        with open(f"{of_run['run_dir']}/run.json") as file:
            by_fold[json.load(file)["settings"]["data"]["fold"]] = of_run["metrics"]["val/acc"]
    expected = sum(by_fold[fold] * sizes[fold] for fold in range(3)) / len(divided)
    assert right.mean() == pytest.approx(expected, abs=1e-6)
    assert "folds.h5" in call(trained, "lab", "runs", "show", "@last")
    assert "predictions" in call(trained, "lab", "runs", "verify", "@last")


def test_a_run_without_folds_is_refused(home):
    refused = call(home, "lab", "predict", first(home)["run_id"], "split=folds", rc=2)
    assert "was trained without folds, so split=folds means nothing" in refused


def test_groups_that_were_packed_stay_together(home):
    rng = np.random.default_rng(0)
    patient = rng.integers(0, 12, 200)
    arrays = {"x": rng.random((200, 4), np.float32), "y": patient % 2, "patient": patient}
    np.savez(home / "scans.npz", **arrays)
    call(home, "lab", "data", "pack", "scans", "scans.npz", "--as", "arrays", "--group", "patient")
    settings = (home / "src/myproj/conf/data/scans.yaml").read_text()
    assert "fields: [x, y]" in settings
    held_out = []
    for fold in range(3):
        data = H5DataModule(str(home / "data/scans.h5"), fields=["patient"], folds=3, fold=fold)
        of_val = np.concatenate([batch[0].numpy() for batch in data.val_dataloader()])
        of_train = np.concatenate([batch[0].numpy() for batch in data.train_dataloader()])
        assert not set(of_val) & set(of_train)
        held_out += sorted(set(of_val))
    assert len(held_out) == len(set(held_out))
