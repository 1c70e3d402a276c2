"""A training ends at the step where that of the run it repeats ended, and continues as if it had not."""

import json
from pathlib import Path

import pytest
import torch
from projects import call
from trainings import SHORT, last

STEPS_PER_EPOCH = 23


def beginnings(record):
    """The step at which each attempt began."""
    files = sorted(Path(record["run_dir"]).glob("attempts/*/beginning.json"))
    return [json.loads(path.read_text())["step"] for path in files]


def weights(record):
    checkpoint = Path(record["run_dir"], "checkpoints/last.ckpt")
    return torch.load(checkpoint, weights_only=True)["state_dict"]


@pytest.mark.release
@pytest.mark.slow
def test_it_stops_within_and_at_the_end_of_an_epoch(home):
    whole = json.loads(call(home, "lab", "runs", "list", "--json"))[-1]
    call(home, "lab", "train", "trial=baseline", *SHORT, LAB_STOP_STEP="13", rc=130)
    run_id = last(home)["run_id"]
    call(home, "lab", "resume", run_id, LAB_STOP_STEP=str(STEPS_PER_EPOCH), rc=130)
    call(home, "lab", "resume", run_id)
    record = last(home)
    assert beginnings(record) == [0, 13, STEPS_PER_EPOCH]
    statuses = [attempt["end"]["status"] for attempt in record["attempts"]]
    assert statuses == ["interrupted", "interrupted", "finished"]
    left, right = weights(record), weights(whole)
    assert all(torch.equal(left[name], right[name]) for name in left)
