"""Habits of debugging: +debug=fast, limit and overfit, and the entries of VS Code."""

import json
import re

import pytest
from in_process import composed
from labrig import errors
from projects import PROJECT, call
from trainings import last, rows


@pytest.mark.slow
def test_debug_wins_over_the_trial_and_is_checked(home):
    config = composed(home, "trial=baseline", "+debug=fast")
    assert (config.trainer.limit_train_batches, config.trainer.limit_test_batches) == (2, 2)
    config = composed(home, "trial=baseline", "+debug=limit", "trainer.limit_val_batches=3")
    assert (config.trainer.limit_train_batches, config.trainer.limit_val_batches) == (10, 3)
    with pytest.raises(errors.LabError, match="did you mean: limit"):
        composed(home, "trial=baseline", "+debug=limt")
    with pytest.raises(errors.LabError, match=r"\+debug=fast"):
        composed(home, "trial=baseline", "debug=fast")


@pytest.mark.release
@pytest.mark.slow
def test_overfit_learns_one_batch_by_heart(home):
    call(
        home, "lab", "train", "trial=baseline", "+debug=overfit", "trainer=cpu", "trainer.threads=1"
    )
    losses = [row["train/loss"] for row in rows(last(home)) if "train/loss" in row]
    assert losses[-1] < 0.01 < losses[0]


def launch_entries():
    return json.loads((PROJECT / ".vscode/launch.json").read_text(encoding="utf-8"))


@pytest.mark.release
@pytest.mark.slow
def test_the_entries_of_vs_code_run(home):
    """`program` is what `make setup` installs; here the same function is called."""
    file = launch_entries()
    trial = file["inputs"][0]["default"]
    for entry in file["configurations"]:
        assert entry["program"] == "${workspaceFolder}/.venv/bin/lab"
        assert entry["python"] == "${workspaceFolder}/.venv/bin/python"
        words = [word.replace("${input:trial}", trial) for word in entry["args"]]
        assert "${" not in " ".join(words)
        output = call(home, "lab", *words, "trainer=cpu", **entry["env"])
        assert re.search(r"^ok  baseline|^finished", output, re.MULTILINE), output
