"""A recorded configuration is read as it is: nothing is composed again."""

import json
from pathlib import Path

import pytest
import yaml
from projects import call
from trainings import SHORT, last


def run_of_one_epoch(home):
    call(home, "lab", "train", "trial=baseline", *SHORT, "trainer.max_epochs=1")
    return Path(last(home)["run_dir"])


def metrics_of_two_epochs(home, run_dir):
    call(home, "lab", "resume", run_dir.name, "trainer.max_epochs=2")
    return json.loads((run_dir / "summary.json").read_text())["metrics"]


@pytest.mark.release
@pytest.mark.slow
def test_it_is_reproduced_and_resumed_in_another_order_of_sections(home):
    run_dir, other_run = run_of_one_epoch(home), run_of_one_epoch(home)
    file = other_run / "config.yaml"
    sections = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(dict(reversed(sections.items())), sort_keys=False))
    assert "bitwise" in call(home, "lab", "runs", "reproduce", other_run.name, "--check")
    assert metrics_of_two_epochs(home, other_run) == metrics_of_two_epochs(home, run_dir)
