"""Processes that share each layer (speed.tensor_parallel), and a pipeline in a program."""

import json
from pathlib import Path
from shutil import copytree

import pytest
import torch
from labrig.config.trainer_arguments import n_readers_of, require_whole_groups
from labrig.errors import LabError
from labrig.record.reproduce.weight_tensors import read_whole_weights
from omegaconf import OmegaConf
from projects import ROOT, call, copy_project, equip
from trainings import SHORT, add_trial, last, rows

SMALL = (*SHORT, "trainer.max_epochs=1", "trainer.max_steps=4", "callbacks=none")
SMALL += ("trainer.limit_val_batches=4", "log.every_n_steps=1")
GPT = ("trial=language", *SMALL, "batch.global=64", "data.batch_size=16")
TWO = ("trainer.devices=2", "speed.tensor_parallel=2", "trainer.limit_test_batches=8")
PAIRS = ("speed.tensor_parallel=2", "trainer.limit_test_batches=4")  # twice the samples of one
NO_PLAN = """
from torch import nn


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A project with two examples, the data of one, and a run of one process."""
    folder = equip(copy_project(tmp_path_factory.mktemp("parallel") / "myproj"))
    for name in ("language", "pipeline"):
        copytree(ROOT / "examples" / name, folder / "src/myproj/trials" / name)
    make = "src/myproj/trials/language/make_topics.py"
    call(folder, "python", make, "data/raw/topics.txt")
    call(folder, "lab", "data", "pack", "topics", "data/raw/topics.txt", "--as", "tokens")
    call(folder, "lab", "train", *GPT, "trainer.limit_test_batches=8")
    return folder


@pytest.fixture(scope="module")
def alone(own):
    return last(own)


def losses(record):
    return [row["train/loss"] for row in rows(record) if "train/loss" in row]


@pytest.mark.release
def test_four_processes_learn_as_one(own, alone):
    """Two pairs: each pair shares every layer, and the pairs divide samples and states."""
    said = call(own, "lab", "train", *GPT, "trainer.devices=4", *PAIRS)
    assert "64 samples per step = 16 per process × 2 processes × 2 accumulated" in said
    record = last(own)
    assert len(losses(alone)) == 4
    assert losses(record) == pytest.approx(losses(alone), rel=1e-5)
    of_test = {name: value for name, value in alone["metrics"].items() if name != "epoch"}
    assert {name: record["metrics"][name] for name in of_test} == pytest.approx(of_test, rel=1e-4)


@pytest.mark.release
@pytest.mark.parametrize(
    "sharded",
    [
        pytest.param("false", marks=pytest.mark.release),
        pytest.param("true", marks=pytest.mark.slow),
    ],
)
def test_two_processes_stop_and_continue_exactly(own, alone, sharded):
    words = (*GPT, *TWO, f"checkpoint.sharded={sharded}")
    call(own, "lab", "train", *words)
    whole = last(own)
    assert losses(whole) == pytest.approx(losses(alone), rel=1e-5)
    call(own, "lab", "train", *words, rc=130, LAB_STOP_STEP="2")
    stopped = last(own)["run_id"]
    call(own, "lab", "resume", stopped)
    resumed = last(own)
    assert resumed["run_id"] == stopped
    assert losses(resumed) == losses(whole)
    one, other = (
        read_whole_weights(Path(record["run_dir"], "checkpoints/last.ckpt"))
        for record in (whole, resumed)
    )
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    printed = call(own, "lab", "eval", stopped, "trainer.devices=1", "--json")
    bits = json.loads(printed.splitlines()[-1])["test/bits"]
    assert bits == pytest.approx(resumed["metrics"]["test/bits"], rel=0.1), "of all batches"


@pytest.mark.release
@pytest.mark.slow
def test_a_model_without_a_plan_is_told_what_to_write(own):
    add_trial(own, "noplan", config_yaml="model:\n  _target_: .model.net\n", model_py=NO_PLAN)
    call(own, "lab", "data", "pack", "digits")
    for words, rc in (
        (("check", "trial=noplan"), 2),
        (("train", "trial=noplan", *SMALL, "trainer.devices=2"), 1),
    ):
        said = call(own, "lab", *words, "speed.tensor_parallel=2", rc=rc)
        assert "Sequential has no parallelize(mesh)" in said
        assert "    def parallelize(self, mesh):" in said
        assert "Traceback" not in said


def test_processes_that_make_no_whole_groups_are_refused():
    config = OmegaConf.create({"speed": {"tensor_parallel": 4}})
    assert [n_readers_of(config, n) for n in (1, 4, 8)] == [1, 1, 2]
    assert require_whole_groups(config, 8) is None
    with pytest.raises(LabError, match=r"a multiple of 4 processes, but there are 6: trainer.dev"):
        require_whole_groups(config, 6)


@pytest.mark.release
@pytest.mark.slow
def test_a_pipeline_learns_as_one_process(own):
    records = []
    for n_stages in (1, 2):
        settings = (f"program.n_stages={n_stages}", "program.n_steps=20")
        call(own, "lab", "train", "trial=pipeline", *settings)
        records.append(last(own))
    one, two = ([row["loss"] for row in rows(record)] for record in records)
    assert len(one) == 20
    assert one == two
    assert one[-1] < one[0]
