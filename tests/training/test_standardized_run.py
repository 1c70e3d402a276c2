"""`lab eval` standardises other data by the statistics of the run, not by their own."""

import json

import pytest
import torch
from labrig.data import read_layout, write_data_file
from projects import call, copy_of
from repositories import commit
from trainings import SHORT, last

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(home, tmp_path_factory):
    """A project with a run, and the same data with all values doubled."""
    folder = copy_of(home, tmp_path_factory.mktemp("standard") / "myproj")
    conf = folder / "src/myproj/conf/data"
    text = (conf / "digits.yaml").read_text().replace("digits.h5", "doubled.h5")
    (conf / "doubled.yaml").write_text(text)  # what was typed for the run holds for it, too
    commit(folder, "Add data")
    own = read_layout(folder / "data/digits.h5")
    fields = {name: own.map(array) for name, array in own.fields.items()}
    splits = {name: own.map(rows) for name, rows in own.splits.items()}
    write_data_file(folder / "data/doubled.h5", fields | {"x": fields["x"] * 2}, splits)
    words = ("data.scale=null", "data.standardize=x", *SHORT)
    call(folder, "lab", "train", "trial=baseline", *words)
    return folder


def evaluated(folder, *words, rc=0):
    printed = call(folder, "lab", "eval", "@last", *words, "--json", rc=rc)
    return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))


@pytest.mark.release
def test_doubled_data_give_another_number_and_own_data_the_recorded_one(trained):
    recorded = last(trained)["metrics"]["test/loss"]
    assert evaluated(trained)["test/loss"] == pytest.approx(recorded, rel=1e-6)
    doubled = evaluated(trained, "data=doubled")
    assert doubled == evaluated(trained, "data.path=doubled.h5")
    assert abs(doubled["test/loss"] - recorded) > 0.1 * recorded
    record = last(trained)
    content = torch.load(f"{record['run_dir']}/checkpoints/last.ckpt", weights_only=True)
    kept = [
        state for state in content.values() if isinstance(state, dict) and "standardize" in state
    ]
    assert kept[0]["standardize"]["x"]["std"].min() > 0
