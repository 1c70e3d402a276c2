"""A configuration that an earlier version has recorded is read as it is: nothing is composed again."""

import json
from pathlib import Path

import pytest
from projects import call
from trainings import SHORT, last

# as the first composer wrote it: another order of sections, and without keys that came later
EARLIER = (Path(__file__).parents[1] / "golden/recorded_config.yaml").read_text(encoding="utf-8")


def run_of_one_epoch(home):
    call(home, "lab", "train", "trial=baseline", *SHORT, "trainer.max_epochs=1")
    return Path(last(home)["run_dir"])


def metrics_of_two_epochs(home, run_dir):
    call(home, "lab", "resume", run_dir.name, "trainer.max_epochs=2")
    return json.loads((run_dir / "summary.json").read_text())["metrics"]


@pytest.mark.slow
def test_it_is_reproduced_and_resumed(home):
    run_dir, earlier_run = run_of_one_epoch(home), run_of_one_epoch(home)
    (earlier_run / "config.yaml").write_text(EARLIER.replace("PROJECT", str(home)))
    assert "bitwise" in call(home, "lab", "runs", "reproduce", earlier_run.name, "--check")
    assert metrics_of_two_epochs(home, earlier_run) == metrics_of_two_epochs(home, run_dir)
