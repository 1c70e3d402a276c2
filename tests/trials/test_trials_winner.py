"""The code of a trial moves into the package: old runs reproduce, and today's code gives the same."""

import json
import shutil
import subprocess
import sys

import pytest
from projects import call, environment_of, equip
from repositories import commit, git
from reproduction import edit, lab, make_project, show
from trainings import SHORT
from trial_runs import replace_in, trial_folder

BITWISE = "bitwise: metrics are identical"


@pytest.mark.release
def test_moved_code_is_compared_with_the_old_run(tmp_path):
    folder = make_project(tmp_path / "myproj")
    trial = trial_folder(folder, "baseline")
    (trial / "code.py").write_text('CODE = "first"\n')
    edit(folder, 'CODE = "first"', "from .trials.baseline.code import CODE")
    lab(folder, "train", "trial=baseline", "trainer.max_epochs=1", PYTHONHASHSEED="3")
    run_id = show(folder)["run_id"]
    git(folder, "add", "-A")
    git(folder, "mv", "src/myproj/trials/baseline/code.py", "src/myproj/winner.py")
    (trial / "code.py").write_text("from ...winner import CODE  # noqa: F401\n")
    check = ("runs", "reproduce", run_id, "--check")
    assert BITWISE in lab(folder, *check)
    lab(folder, "train", "trial=baseline", "trainer.max_epochs=1", PYTHONHASHSEED="3")
    output = lab(folder, "runs", "verify", run_id, "@last")
    assert BITWISE in output
    assert "note: the code differs" in output
    lab(folder, "trials", "rename", "baseline", "first")
    assert BITWISE in lab(folder, *check), "the frozen code, with the old name"
    rows = json.loads(lab(folder, "runs", "list", "trial=first", "--json"))
    assert len(rows) == 4, "the run and its repetitions"


def loaded_from(folder, run_id):
    """The module of the model that `load` gives in a notebook."""
    program = f"from labrig import load; print(type(load({run_id!r})).__module__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment_of(folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.release
def test_a_model_moves_as_the_page_says(project, tmp_path):
    folder = equip(shutil.copytree(project, tmp_path / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    call(folder, "lab", "train", "trial=baseline", *SHORT, "trainer.limit_train_batches=4")
    run_id = json.loads(call(folder, "lab", "runs", "show", "@last", "--json"))["run_id"]
    git(folder, "mv", "src/myproj/trials/baseline/model.py", "src/myproj/cnn.py")
    trial = trial_folder(folder, "baseline")
    (trial / "model.py").write_text("from ...cnn import CNN  # noqa: F401\n")
    call(folder, "lab", "check", "trial=baseline", "--no-batch")
    call(folder, "lab", "train", "trial=baseline", *SHORT, "trainer.limit_train_batches=4")
    output = call(folder, "lab", "runs", "verify", run_id, "@last")
    assert f"{BITWISE} and so are the weights" in output
    assert loaded_from(folder, run_id) == "myproj.cnn"
    commit(folder, "Move the model")
    call(folder, "lab", "trials", "rename", "baseline", "first")
    assert loaded_from(folder, run_id) == "myproj.cnn"
    git(folder, "reset", "-q", "--hard")
    git(folder, "clean", "-q", "-fd", "src")
    replace_in(trial / "config.yaml", "_target_: .model.CNN", "_target_: ${package}.cnn.CNN")
    (trial / "model.py").unlink()
    call(folder, "lab", "check", "trial=baseline", "--no-batch")
    assert BITWISE in call(folder, "lab", "runs", "reproduce", run_id, "--check")
