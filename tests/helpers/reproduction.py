"""A project whose training is quick and tells apart every input: its result is a hash of all of them."""

import json
import shutil
import sys

import numpy as np
from labrig.data import write_data_file
from projects import PROJECT, call
from repositories import NO_SETTINGS_OF_THIS_MACHINE, commit, git

TRAIN = '''"""A stand-in for train.py: each step hashes the one before and what the code reads."""

import hashlib
import json
import os
from pathlib import Path

from labrig.errors import Failed
from labrig.data import fingerprint
from labrig.hdf5.file.find import find_data_files
from labrig.hdf5.file.joined import read_layouts
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.read.run import note_beginning

CODE = "first"
STEPS_PER_EPOCH = 10


class Stopped(Failed):
    exit_code = 130


def train(config, run, recording):
    state_file = run.checkpoints / "state.json"
    state = {"step": 0, "hash": ""}
    if state_file.exists():
        state = json.loads(state_file.read_text())
    note_beginning(run.dir, recording.n, state["step"])
    content = fingerprint(read_layouts(find_data_files(config.data.path, config.data.search)))
    recording.note(world_size=1, threads=2, data=content)
    factor = Path("factor.txt").read_text()
    inputs = [CODE, factor, hash("a"), os.environ.get("MY_FACTOR"), content["sha256"]]
    log = MetricsLog(run.dir, recording.n)
    while state["step"] < STEPS_PER_EPOCH * config.trainer.max_epochs:
        text = f"{state['hash']} {inputs} {config.trainer.max_epochs}"
        state = {"step": state["step"] + 1, "hash": hashlib.sha256(text.encode()).hexdigest()}
        log.append(state["step"], 0, {"val/loss": int(state["hash"][:6], 16) / 1e7})
        if state["step"] == int(os.environ.get("LAB_STOP_STEP", 0)):
            state_file.write_text(json.dumps(state))
            raise Stopped(f"stopped at step {state['step']}")
    state_file.write_text(json.dumps(state))
    log.close()
    recording.measured |= {"global_step": state["step"]}
    recording.metrics |= {"val/loss": int(state["hash"][:6], 16) / 1e7}
'''


def make_project(folder):
    """The default project with the training above, which reads factor.txt of its directory."""
    shutil.copytree(PROJECT, folder)
    (folder / "src/myproj/train.py").write_text(TRAIN)
    for place in (".", "sub"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "factor.txt").write_text(f"committed in {place}")
    commit(folder, "first")
    add_data(folder, "digits.h5")
    return folder


def add_data(folder, name, n=4, value=0):
    """A data file of `n` samples, which have all this value."""
    (folder / "data").mkdir(exist_ok=True)
    fields = {"x": np.full((n, 2), value, np.uint8)}
    return write_data_file(folder / "data" / name, fields, {"train": range(n)})


def edit(folder, before, after):
    """Changes the code of the training."""
    path = folder / "src/myproj/train.py"
    path.write_text(path.read_text().replace(before, after))


def clone(folder, to):
    """Another clone of the project, without data and runs."""
    git(folder.parent, "clone", "-q", folder, to)
    return to


def lab(folder, *words, at=".", rc=0, **variables):
    """`lab WORDS` in a directory of the project."""
    usual = {"PYTHONPATH": str(folder / "src"), **NO_SETTINGS_OF_THIS_MACHINE}
    command = (sys.executable, "-m", "labrig", *words)
    return call(folder / at, *command, rc=rc, **usual | variables)


def show(folder, run="@last"):
    """The record of a run."""
    return json.loads(lab(folder, "runs", "show", run, "--json"))
