"""A finished run is evaluated, predicted with and continued on the data that it read, after packing again."""

import json
import os

import pytest
from projects import call
from trainings import SHORT, last


@pytest.mark.release
@pytest.mark.slow
def test_a_run_reads_its_own_data_after_packing_again(own_project):
    def lab(*words, **how):
        return call(own_project, "lab", *words, **how)

    lab("data", "pack", "digits")
    lab("train", "trial=baseline", *SHORT, "trainer.max_epochs=1")
    run = last(own_project)
    recorded = run["attempts"][0]["start"]["data"]["sha256"]
    recorded_metrics = run["attempts"][0]["end"]["metrics"]
    kept = own_project / f"data/digits-{recorded[:12]}.h5"
    lab("data", "pack", "digits", "--seed", "1")
    said, _, answer = lab("eval", "@last", "--json").partition("{")
    metrics = json.loads("{" + answer.partition("}")[0] + "}")
    for name, value in metrics.items():
        assert value == pytest.approx(recorded_metrics[name], abs=1e-6), said
    lab("predict", "@last")
    with open(f"{run['run_dir']}/predictions.jsonl") as file:
        assert json.loads(file.readline())["data"]["sha256"] == recorded
    assert f"reads {kept}" in lab("resume", "@last", "trainer.max_epochs=2")
    hashes = [attempt["start"]["data"]["sha256"] for attempt in last(own_project)["attempts"]]
    assert hashes == [recorded, recorded]
    os.remove(kept)
    said = lab("eval", "@last")
    assert f"data/digits.h5 does not hold what {run['run_id']} read" in said
    assert "To have that again, move this away, then: lab data pack digits\n" in said
