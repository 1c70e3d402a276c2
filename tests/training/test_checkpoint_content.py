"""What a checkpoint holds: plain types, whatever optimizer or state a project brings. The check finds the rest."""

import collections
import enum
import io

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from attempts import attempt, attempts, same
from labrig.errors import LabError
from labrig.project import Project
from labrig.training.check import check
from labrig.training.checkpoints.checkpoint import plain_types
from labrig.training.parts.build import build
from omegaconf import ListConfig, OmegaConf
from projects import call
from torch import nn
from trainings import last

OPTIMIZERS = {
    "AdamW": {"betas": [0.9, 0.99]},
    "Adam": {"betas": [0.9, 0.99]},
    "RAdam": {"betas": [0.9, 0.99]},
    "NAdam": {"betas": [0.9, 0.99]},
    "Adamax": {"betas": [0.9, 0.99]},
    "Adafactor": {"eps": [None, 1e-3]},
    "Rprop": {"etas": [0.5, 1.2], "step_sizes": [1e-6, 50]},
    "Muon": {"ns_coefficients": [3.4445, -4.775, 2.0315]},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_keeps_plain_lists(name):
    section = {"_target_": f"torch.optim.{name}", "_partial_": True, "lr": 0.1} | OPTIMIZERS[name]
    layer = nn.Linear(2, 2, bias=False)
    optimizer = build(OmegaConf.create({"optimizer": section}), "optimizer")(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    for key in OPTIMIZERS[name]:
        assert type(optimizer.param_groups[0][key]) in (list, tuple), key
    assert_loads(plain_types(optimizer.state_dict()))


def test_a_part_may_ask_for_containers_of_omegaconf():
    config = OmegaConf.create(
        {"part": {"_target_": "builtins.dict", "_convert_": "none", "x": [1]}}
    )
    assert isinstance(build(config, "part")["x"], ListConfig)


class Phase(enum.IntEnum):
    WARM = 1


class Colour(enum.StrEnum):
    RED = "red"


class Name(str):
    pass


def test_values_that_are_nearly_plain_become_plain():
    state = {
        "int": Phase.WARM,
        "text": [Colour.RED, Name("x")],
        Phase.WARM: np.float64(2),
        "shape": torch.Size([2, 3]),
        "queue": collections.deque([1, 2]),
        "counter": collections.Counter("aab"),
        "names": np.array(["a", "b"]),
        "numbers": np.arange(3),
        "config": OmegaConf.create({"a": [1, {"b": 2}]}),
        "set": {1, 2},
    }
    loaded = assert_loads(plain_types(state))
    assert loaded.pop("numbers").tolist() == [0, 1, 2]
    assert loaded == {
        "int": 1,
        "text": ["red", "x"],
        1: 2.0,
        "shape": (2, 3),
        "queue": [1, 2],
        "counter": {"a": 2, "b": 1},
        "names": ["a", "b"],
        "config": {"a": [1, {"b": 2}]},
        "set": {1, 2},
    }
    assert type(loaded["int"]) is int


def assert_loads(content):
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class HoldsAFunction(L.Callback):
    def state_dict(self):
        return {"history": [1, lambda: None]}


class Measured(torch.Tensor):
    """A tensor of a class that nobody has declared safe."""


class HoldsATensorOfAClass(L.Callback):
    def state_dict(self):
        return {"mean": torch.ones(1).as_subclass(Measured)}


WRONG = {
    "callbacks.x={_target_: test_checkpoint_content.HoldsAFunction}": (
        "checkpoint.callbacks.HoldsAFunction.history[1] is a function. A checkpoint cannot hold it."
    ),
    "callbacks.x={_target_: test_checkpoint_content.HoldsATensorOfAClass}": "test_checkpoint_content.Measured",
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", WRONG)
def test_the_check_finds_what_a_first_checkpoint_would_find(home, setting):
    words = ["trial=baseline", "trainer=cpu", "trainer.threads=1", setting]
    with pytest.raises(LabError) as refused:
        check(Project(home, "myproj"), words)
    assert WRONG[setting] in str(refused.value)
    assert not list(home.glob("**/first.ckpt"))


@pytest.mark.slow
def test_a_checkpoint_of_an_optimizer_with_lists_is_written(home):
    """Old releases of torch keep the list of AdamW, too."""
    folder = home / "src/myproj/conf/optimizer"
    folder.mkdir(exist_ok=True)
    (folder / "radam.yaml").write_text(
        "_target_: torch.optim.RAdam\n_partial_: true\nlr: 1e-3\nbetas: [0.9, 0.99]\n"
    )
    short = ("trainer=cpu", "trainer.max_epochs=1", "trainer.limit_train_batches=2")
    call(home, "lab", "train", "trial=baseline", "optimizer=radam", *short)
    content = torch.load(f"{last(home)['run_dir']}/checkpoints/last.ckpt", weights_only=True)
    assert content["optimizer_states"][0]["param_groups"][0]["betas"] == [0.9, 0.99]


@pytest.mark.slow
def test_checkpoints_of_steps_stay_and_change_no_number(home, tmp_path):
    """Each holds what a training of so many optimizer steps ends with."""
    settings = ("trainer.accumulate_grad_batches=2", "schedule=constant")
    plain = attempt(home, tmp_path / "plain", *settings)
    every = "checkpoint.every_steps=4"
    kept = attempts(home, tmp_path / "kept", *settings, every, stops=["train:6"])
    assert not kept.differences(plain)
    n_steps = kept.checkpoint["global_step"]
    found = {path.stem for path in (tmp_path / "kept/checkpoints").glob("step-*.ckpt")}
    assert found == {f"step-{n}" for n in range(4, n_steps + 1, 4)}
    short = attempt(home, tmp_path / "short", *settings, "trainer.max_steps=4")
    of_step = torch.load(tmp_path / "kept/checkpoints/step-4.ckpt", weights_only=True)
    assert same(of_step["state_dict"], short.checkpoint["state_dict"])
