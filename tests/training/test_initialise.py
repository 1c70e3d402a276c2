"""A training starts from other weights: names and shapes are fitted, and told; a resume keeps its own."""

import subprocess
import sys
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from hub_server import COMMIT, hub_with
from labrig.errors import LabError
from labrig.training.initialise import load_file, match_tensors
from omegaconf import OmegaConf
from projects import call, environment_of
from safetensors.torch import save_file
from torch import nn
from trainings import SHORT, last

KEEP = OmegaConf.create({"prefix": {}, "mismatch": "refuse"})


class Task(L.LightningModule):
    def __init__(self, n_classes=3):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, n_classes))


def named(*names):
    return {name: torch.ones(1) for name in names}


@pytest.mark.parametrize(
    ("there", "prefix", "loaded", "missing", "unused"),
    [
        (["model.a", "model.b"], {}, ["model.a", "model.b"], [], []),
        (["a", "x"], {}, ["model.a"], ["model.b"], ["x"]),
        (["enc.a", "enc.b"], {"enc.": ""}, ["model.a", "model.b"], [], []),
        (["enc.a", "enc.b"], {"enc.": "", "enc.b": None}, ["model.a"], ["model.b"], ["enc.b"]),
        (["enc.in.a", "enc.b"], {"enc.": "", "enc.in.": ""}, ["model.a", "model.b"], [], []),
        (["a"], {"": "model."}, ["model.a"], ["model.b"], []),
    ],
)
def test_names_are_mapped_by_the_longest_beginning(there, prefix, loaded, missing, unused):
    match = match_tensors(named(*there), named("model.a", "model.b"), prefix)
    assert (sorted(match.tensors), match.missing, match.unused) == (loaded, missing, unused)


def test_two_tensors_with_one_name_are_refused():
    with pytest.raises(LabError, match=r"a and model\.a would both become model.a"):
        match_tensors(named("a", "model.a"), named("model.a"), {})


def test_other_shapes_are_listed_and_refused_unless_told(tmp_path):
    file = tmp_path / "pretrained.pt"
    torch.save(Task(n_classes=5).state_dict(), file)
    task = Task()
    first, head = (layer.weight.clone() for layer in task.model)
    with pytest.raises(LabError, match=r"model.1.weight: \[5, 4\] there, \[3, 4\] here") as told:
        load_file(task, file, KEEP)
    assert "init.mismatch=skip" in str(told.value)
    assert torch.equal(task.model[0].weight, first), "nothing was loaded"
    match = load_file(task, file, OmegaConf.merge(KEEP, {"mismatch": "skip"}))
    assert sorted(match.misfits) == ["model.1.bias", "model.1.weight"]
    assert not torch.equal(task.model[0].weight, first)
    assert torch.equal(task.model[1].weight, head)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"other.weight": torch.ones(1)}, "no tensor of .* has a name and shape of this task"),
        ({"model": {"a": torch.ones(1)}, "epoch": 3}, "with the keys model, epoch"),
        (Task(), "save\\(model.state_dict\\(\\), FILE\\)"),  # a pickled object could run code
        (b"nothing at all", "it is damaged, or holds more"),
    ],
)
def test_a_file_of_something_else_is_reported(tmp_path, content, words):
    file = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with pytest.raises(LabError, match=words):
        load_file(Task(), file, KEEP)
    damaged = tmp_path / "weights.safetensors"
    damaged.write_bytes(b"nothing at all")
    with pytest.raises(LabError, match=r"no whole \.safetensors file"):
        load_file(Task(), damaged, KEEP)


@pytest.mark.slow
def test_from_the_hub_to_a_run_to_the_next_run(home, tmp_path):
    """A model of the hub, fetched once and read without a network; then a run that starts from that run."""
    first = min((home / "runs/baseline").glob("2*"))
    weights = weights_of({"run_dir": first})
    renamed = {name.replace("model.features", "encoder"): value for name, value in weights.items()}
    save_file(renamed, tmp_path / "model.safetensors")
    settings = ["trial=baseline", *SHORT, "trainer.max_epochs=1", "trainer.limit_train_batches=2"]
    settings += ["optimizer.lr=0", "optimizer.weight_decay=0"]
    reference = ["init_from=hf:org/digits", "init.prefix={encoder.: features.}"]
    with hub_with(tmp_path / "hub", tmp_path / "model.safetensors") as variables:
        said = call(home, "lab", "train", *settings, *reference, rc=2, **variables)
        assert "lab prefetch trial=NAME init_from=hf:org/digits" in said
        online = environment_of(home, **variables)
        said = call(home, "lab", "prefetch", *settings, *reference, **variables)
        assert "everything is there" in said
        wrong = subprocess.run(
            [sys.executable, "-m", "labrig.machine.hub", "hf:org/digits:other.bin"],
            env=online, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert "has none of other.bin at main" in wrong.stderr
    # The hub is gone from here on.
    call(home, "lab", "train", *settings, *reference, **variables)
    second = last(home)
    start = second["attempts"][0]["start"]["init_from"]
    assert start["source"] == f"hf:org/digits@{COMMIT}:model.safetensors"
    assert (start["n_loaded"], start["missing"], start["unused"]) == (18, [], [])
    assert all(torch.equal(weights_of(second)[name], weights[name]) for name in parameters(weights))

    said = call(home, "lab", "train", *settings, "init_from=@last:best", "seed=1")
    third = last(home)
    assert f"starts from {second['run_id']}:best: 18 of 18 tensors" in said
    assert third["attempts"][0]["start"]["init_from"]["run"] == second["run_id"]
    for file in Path(second["run_dir"], "checkpoints").iterdir():
        file.unlink()
    said = call(home, "lab", "resume", third["run_id"], "trainer.max_epochs=2")
    assert "starts from" not in said, "a resume continues with its own weights"
    assert "init_from" not in last(home)["attempts"][1]["start"]
    said = call(home, "lab", "runs", "reproduce", third["run_id"], rc=3)
    assert "are gone" in said


def weights_of(record):
    file = Path(record["run_dir"], "checkpoints/last.ckpt")
    return torch.load(file, weights_only=True)["state_dict"]


def parameters(weights):
    """The names of what an optimizer changes; statistics of a BatchNorm change without it."""
    return [name for name in weights if name.endswith(("weight", "bias"))]
