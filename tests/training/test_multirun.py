"""`lab train -m`: one import of torch for all runs, each as fresh as a run of its own, one or several at a time."""

import json
import os
import signal
import sys
import threading
from argparse import Namespace

import pytest
import torch
from labrig.errors import LabError
from labrig.training.start import multirun
from projects import call
from repositories import write
from trainings import add_trial, rows
from trainings import start as start_command

# Whatever a run leaves behind in its process would change the next one.
UNTIDY = """
import os
import random

import numpy as np
import torch
from torch import nn

built = []
at_import = random.random()


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        built.append(width)
        os.environ["UNTIDY"] = os.environ.get("UNTIDY", "") + "x"
        n_seen = len(built) + len(os.environ["UNTIDY"])
        noise = random.random() + np.random.rand()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width * n_seen), nn.Dropout(0.2), nn.Linear(width * n_seen, 10)
        )
        self.scale = noise + torch.rand(()).item() + torch.get_num_threads()
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        nn.Linear.reset_parameters = nn.init.zeros_

    def forward(self, image_B1HW):
        return self.layers(image_B1HW) * self.scale
"""
POINTS = ["seed=1,2", "trainer.threads=1,2"]
USUAL = ["trial=untidy", "trainer=cpu", "trainer.max_epochs=1"]


def records(folder):
    listed = json.loads(call(folder, "lab", "runs", "list", "--json"))
    return {tuple(run["overrides"]): run for run in map(record_of, listed)}


def record_of(row):
    with open(f"{row['run_dir']}/run.json") as file:
        record = json.load(file)
    return record | record["command"] | row


def results(folder):
    """Curve, weights and settings of each run, without times."""
    found = {}
    for overrides, row in records(folder).items():
        curve = [{k: v for k, v in line.items() if k != "time_unix_s"} for line in rows(row)]
        state = torch.load(f"{row['run_dir']}/checkpoints/last.ckpt", weights_only=True)
        weights = {name: value.numpy().tobytes() for name, value in state["state_dict"].items()}
        found[overrides] = (curve, weights, row["status"])
    return found


@pytest.mark.release
def test_the_runs_of_a_list_are_those_of_single_commands_to_the_last_bit(own_project):
    add_trial(own_project, "untidy", model_py=UNTIDY, config_yaml="model: {_target_: .model.Net}\n")
    call(own_project, "lab", "data", "pack", "digits")
    call(own_project, "lab", "train", *USUAL, *POINTS, "-m", "--why", "together")
    together = results(own_project)
    first = next(iter(records(own_project).values()))
    assert first["why"] == "together"
    assert first["argv"][1:] == ["train", *first["overrides"], "--why", "together"]
    os.rename(own_project / "runs", own_project / "runs-together")
    for overrides in together:
        call(own_project, "lab", "train", *overrides)
    alone = results(own_project)
    assert len(together) == 4
    assert together == alone
    os.rename(own_project / "runs", own_project / "runs-alone")
    said = call(own_project, "lab", "train", *USUAL, *POINTS, "-m", "--jobs", "3")
    assert "4 runs, 3 at a time on this machine" in said
    assert results(own_project) == alone


# A train.py that does what the test wants to see, in place of a training.
HEAD = (
    "import os, signal, sys, time\nfrom pathlib import Path\nhad_torch = 'torch' in sys.modules\n"
)
TRAIN = HEAD + "def train(config, run, recording):\n    "
# The runs with the seeds 1 and 2 wait for each other.
MEET = "Path(str(config.seed)).touch()\nwhile not Path(str(3 - config.seed)).exists(): time.sleep(0.05)\n"
MULTIRUN = ("lab", "train", "trial=baseline", "-m")


def with_train(folder, body):
    data = {"data/digits.h5": ""}  # nobody reads it; it must be there
    write(folder, {"src/myproj/train.py": TRAIN + body.replace("\n", "\n    "), **data})
    return folder


@pytest.mark.release
@pytest.mark.slow
def test_a_point_that_fails_does_not_end_the_others(own_project):
    with_train(own_project, "print('seed', config.seed)\nassert config.seed != 9")
    said = call(own_project, *MULTIRUN, "seed=9,5,9", rc=1)
    assert said.index("[1/3]") < said.index("[2/3]") < said.index("seed 5") < said.index("[3/3]")
    assert "[1/3] ended with exit code 1" in said
    assert "2 of 3 runs did not finish" in said
    statuses = [row["status"] for row in records(own_project).values()]
    assert sorted(statuses) == ["failed", "finished"], "of the two with the same settings one"
    assert call(own_project, "lab", "runs", "list").count("failed") == 2


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(("codes", "expected"), [("0,3,3", 3), ("3,4", 1)])
def test_the_exit_code_is_that_of_the_runs(own_project, codes, expected):
    with_train(own_project, "sys.stdout.flush()\nos._exit(config.seed)")
    said = call(own_project, *MULTIRUN, f"seed={codes}", rc=expected)
    assert "2 of" in said


@pytest.mark.release
@pytest.mark.slow
def test_several_run_at_a_time_and_each_line_says_whose_it_is(own_project):
    with_train(own_project, MEET + "print('seed', config.seed)\nprint('no end', end='')")
    said = call(own_project, *MULTIRUN, "seed=range(1,3)", "--jobs", "2", timeout_s=120)
    assert "2 runs, 2 at a time" in said
    assert "'seed=range(1,3)'" in said, "what a shell takes"
    for number in (1, 2):
        assert f"\n[{number}/2] seed {number}\n" in said
        assert f"[{number}/2] no end" in said


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_signal_reaches_the_runs_and_no_other_begins(own_project, jobs):
    stop = "def stop(*_):\n    print('saving', flush=True)\n    sys.exit(7)\n"
    listen = f"{stop}signal.signal(signal.SIGTERM, stop)\n"
    if jobs == "2":
        listen += MEET
    with_train(own_project, f"{listen}print('trains', flush=True)\ntime.sleep(300)")
    words = ["trial=baseline", "seed=1,2,3", "-m", "--jobs", jobs]
    last_to_begin = "trains" if jobs == "1" else "[2/3] trains"
    process, _ = start_command(own_project, *words, until=last_to_begin)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.count("saving") == int(jobs)
    assert f"stopped: {3 - int(jobs)} of 3 runs were not begun" in said


REGISTER = """
from omegaconf import OmegaConf
calls = []
OmegaConf.register_new_resolver("count", lambda: calls.append(1) or len(calls), replace=True)
"""


@pytest.mark.release
@pytest.mark.slow
def test_composing_one_point_changes_nothing_for_the_next(own_project):
    write(own_project, {"src/myproj/conf/register.py": REGISTER})
    config = own_project / "src/myproj/conf/config.yaml"
    config.write_text(config.read_text() + "n_composed: '${count:}'\n")
    with_train(own_project, "print('composed', config.n_composed, os.environ.get('TORCH_HOME'))")
    said = call(own_project, *MULTIRUN, "seed=1,2", "+paths.caches=null,/tmp/x")
    alone = call(own_project, "lab", "train", "trial=baseline", "+paths.caches=null")
    line = next(line for line in alone.splitlines() if line.startswith("composed"))
    assert said.count(line) == 2, said


@pytest.mark.release
@pytest.mark.slow
def test_mistakes_are_answered_before_anything_starts(own_project):
    with_train(own_project, "print('seed', config.seed)")
    assert "did you mean: width" in call(own_project, *MULTIRUN, "seed=1,2", "model.widht=3", rc=2)
    assert "--jobs is 0" in call(own_project, *MULTIRUN, "seed=1,2", "--jobs", "0", rc=2)
    said = call(own_project, "lab", "train", "trial=baseline", "--jobs", "2", rc=2)
    assert "--jobs is for the runs of a list" in said
    assert "no runs" in call(own_project, "lab", "runs", "list")


@pytest.mark.release
@pytest.mark.slow
def test_torch_is_imported_once_for_all_points(own_project):
    with_train(own_project, "print('seed', config.seed, had_torch)")
    said = call(own_project, *MULTIRUN, "seed=1,2", cold=True)
    assert "seed 1 True" in said
    assert "seed 2 True" in said


@pytest.mark.slow
def test_the_points_of_a_program_import_no_torch(own_project):
    program = "import sys\ndef main(config, log):\n    print('torch' in sys.modules)\n    log(1, {'x': 1.0})\n"
    add_trial(own_project, "em", program_py=program, config_yaml="program: {n: 1}\n")
    said = call(own_project, "lab", "train", "trial=em", "seed=1,2", "-m", cold=True)
    assert said.splitlines().count("False") == 2, said


def test_where_a_fork_must_not_compute_each_point_is_a_new_process(monkeypatch):
    n_of_other_tests = threading.active_count() - 1
    count = lambda: len(threading.enumerate()) - n_of_other_tests  # noqa: E731
    monkeypatch.setattr(multirun.threading, "active_count", count)
    assert multirun.may_compute()
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    assert not multirun.may_compute()
    done.set()
    other.join()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not multirun.may_compute()
    started = []
    monkeypatch.setattr(multirun.os, "execv", lambda *words: started.append(words))
    monkeypatch.setattr(sys, "argv", ["lab"])
    multirun.train_in_fork(None, ["trial=baseline"], lambda *_: 0)
    command = [sys.executable, "-m", "labrig", "train", "trial=baseline"]
    assert started == [(sys.executable, command)]


def test_jobs_are_counted_from_one():
    with pytest.raises(LabError, match="--jobs is 0, expected at least 1"):
        multirun.train_points(None, Namespace(jobs=0), None)


EDITS_ITSELF = """
import subprocess

import torch
from torch import nn

SCALE = 1.0
subprocess.run(["sed", "-i", "s/^SCALE = 1.0/SCALE = 2.0/", __file__], check=True)


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        self.register_buffer("scale", torch.tensor(SCALE))

    def forward(self, image_B1HW):
        return self.layers(image_B1HW) * self.scale
"""


@pytest.mark.release
@pytest.mark.slow
def test_an_edit_while_the_first_run_trains_changes_no_later_one(own_project):
    files = {"model_py": EDITS_ITSELF, "config_yaml": "model: {_target_: .model.Net}"}
    add_trial(own_project, "edits", **files)
    call(own_project, "lab", "data", "pack", "digits")
    settings = ("trial=edits", "trainer=cpu", "trainer.max_epochs=1", "seed=1,2")
    call(own_project, "lab", "train", *settings, "-m")
    runs = [
        record_of(row) for row in json.loads(call(own_project, "lab", "runs", "list", "--json"))
    ]
    runs = [run for run in runs if run["trial"] == "edits"]
    assert len({run["code"]["commit"] for run in runs}) == 1
    for folder in (own_project / "runs/edits").glob("2*"):
        weights = torch.load(folder / "checkpoints/last.ckpt")["state_dict"]
        assert float(weights["model.scale"]) == 1.0
