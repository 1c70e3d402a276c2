"""What a resume can spoil: a finished run, a damaged checkpoint, a test that fails, a disk that takes no more."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from conftest import call
from trainings import SHORT, add_trial, last, start

# "trained" only counts once the fit is over; the test of these tasks fails, or does not exist.
TASK = """
from ...task import Classifier

class Untestable(Classifier):
    def test_step(self, batch, batch_idx):
        raise RuntimeError("no test tonight")

class Untested(Classifier):
    test_step = Classifier.__mro__[1].test_step
"""
CONFIG = "task:\n  _target_: .task.{}\nmodel:\n  _target_: myproj.trials.baseline.model.CNN\n"

QUOTA = """
import errno, os
import lightning.pytorch as L

class Quota(L.Callback):
    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        if "QUOTA" not in os.environ or (trainer.current_epoch, batch_idx) != (1, 5):
            return
        def refuse(file, *rest):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        fsync = os.fsync
        in_checkpoints = lambda file: "checkpoints" in os.readlink(f"/proc/self/fd/{file}")
        os.write = refuse
        os.fsync = lambda file: refuse(file) if in_checkpoints(file) else fsync(file)
"""


@pytest.fixture
def finished(home):
    """The record of a finished run of two epochs that the test can spoil."""
    record = json.loads(call(home, "lab", "runs", "show", "status=finished", "--json", rc=2) or "{}")
    return record


def own_copy(home):
    """The run of `home`, copied under an id of its own."""
    runs = home / "runs/baseline"
    source = sorted(runs.iterdir())[0]
    name = f"{source.name[:-6]}{os.urandom(3).hex()}"
    copy = shutil.copytree(source, runs / name)
    record = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(record | {"run_id": name}))
    return copy


def show(home, run_dir):
    return json.loads(call(home, "lab", "runs", "show", run_dir.name, "--json"))


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def same_weights(one, other):
    left, right = weights(one), weights(other)
    return all(torch.equal(left[name], right[name]) for name in left)
