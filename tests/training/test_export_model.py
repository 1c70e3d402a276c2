"""lab runs export-model: a folder that others load without labrig, and that a hub takes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from hub_server import hub_with
from labrig.training.trained import export_model
from omegaconf import OmegaConf
from projects import call, environment_of
from safetensors.torch import load_file
from torch import nn
from trainings import SHORT, last

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def trained(home):
    short = ("trainer.max_epochs=1", "trainer.limit_train_batches=2")
    call(home, "lab", "train", "trial=baseline", *SHORT, *short)
    return last(home)


@pytest.mark.release
@pytest.mark.slow
def test_a_folder_has_weights_configuration_card_and_graphs(home, trained, tmp_path):
    folder = tmp_path / "release"
    words = (trained["run_id"], folder, "--onnx", "--torch-export")
    said = call(home, "lab", "runs", "export-model", *words)
    assert {path.name for path in folder.iterdir()} >= {
        *("README.md", "config.json", "config.yaml", "model.onnx", "model.pt2"),
        "model.safetensors",
    }
    weights = load_file(folder / "model.safetensors")
    checkpoint = torch.load(Path(trained["run_dir"], "checkpoints/last.ckpt"), weights_only=True)[
        "state_dict"
    ]
    assert all(torch.equal(checkpoint[f"model.{name}"], weights[name]) for name in weights)
    # The graph needs no code of the project, and takes any number of samples.
    graph = torch.export.load(folder / "model.pt2").module()
    x = torch.rand(5, *graph_input(graph)[1:])
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx")
    (name,) = [each.name for each in session.get_inputs()]
    (scores,) = session.run(None, {name: x.numpy()})
    torch.testing.assert_close(graph(x), torch.from_numpy(scores), rtol=1e-3, atol=1e-4)
    assert said.count("its outputs are those of the network") == 2
    card = (folder / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["license"] == "mit"
    assert json.loads((folder / "config.json").read_text())["model"]["_target_"].startswith(
        "myproj."
    )
    commit = trained["code"]["commit"]
    for words in (
        "## How it was made",
        "test/acc |",
        f"commit {commit}",
        "digits.h5, sha256",
        "cff-version",
    ):
        assert words in card
    said = call(home, "lab", "runs", "export-model", trained["run_id"], folder, rc=2)
    assert "is there already. Name a new folder" in said


def test_a_folder_says_how_its_inputs_were_made(tmp_path):
    statistics = {"x": {"mean": torch.tensor([2.0]), "std": torch.tensor([0.5])}}
    torch.save({"data": {"standardize": statistics}}, tmp_path / "last.ckpt")
    run = SimpleNamespace(checkpoints=tmp_path)
    config = OmegaConf.create({"data": {"scale": {"image": 255}}})
    export_model.write_inputs(config, run, "last", tmp_path)
    assert json.loads((tmp_path / "inputs.json").read_text()) == {
        "scale": {"image": 255},
        "standardize": {"x": {"mean": [2.0], "std": [0.5]}},
    }


def graph_input(graph):
    """The shape of the input of an exported program."""
    (node,) = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [size if isinstance(size, int) else 2 for size in node.meta["val"].shape]


@pytest.mark.release
def test_a_hub_takes_it_and_gives_it_back(home, trained, tmp_path):
    folder = tmp_path / "release"
    with hub_with(tmp_path / "hub") as variables:
        words = (trained["run_id"], folder, "--push", "hf:org/digits")
        said = call(home, "lab", "runs", "export-model", *words, rc=1, **variables)
        assert "is written, and not pushed to org/digits" in said
        said = call(
            home, "lab", "runs", "export-model", trained["run_id"], tmp_path / "second",
            "--push", "hf:org/digits", HF_TOKEN="hf_of_a_test", **variables,
        )  # fmt: skip
        assert "pushed: " in said
        fetched = subprocess.run(
            [sys.executable, "-m", "labrig.machine.hub", "hf:org/digits"],
            env=environment_of(home, **variables), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    file = Path(fetched.stdout.strip())
    assert file.read_bytes() == (folder / "model.safetensors").read_bytes()


class Undecided(nn.Module):
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x


class Twice(nn.Module):
    def forward(self, x):
        return {"score": 2 * x, "none": None}


@pytest.mark.slow
def test_a_network_that_cannot_be_exported_leaves_one_line(tmp_path, capsys):
    x = torch.ones(2, 3)
    for name, write in (("a.pt2", export_model.write_graph), ("a.onnx", export_model.write_onnx)):
        assert not export_model.write_checked(write, Undecided(), x, tmp_path / name)
        assert f"{name} is not there: " in capsys.readouterr().out
    assert export_model.write_checked(export_model.write_graph, Twice(), x, tmp_path / "b.pt2")

    def write_other(network, x, file):
        file.touch()
        return lambda x: {"score": 3 * x, "none": None}

    capsys.readouterr()
    assert not export_model.write_checked(write_other, Twice(), x, tmp_path / "c.pt2")
    assert (
        "c.pt2 is not there: AssertionError: Tensor-likes are not close!" in capsys.readouterr().out
    )
    assert os.listdir(tmp_path) == ["b.pt2"]


@pytest.mark.release
@pytest.mark.slow
def test_a_token_in_the_card_stays_here(home, trained, tmp_path, monkeypatch):
    token = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
    readme = home / "src/myproj/trials/baseline/README.md"
    text = readme.read_text()
    readme.write_text(f"{text}\nlogin with {token}\n")
    try:
        words = (trained["run_id"], tmp_path / "release")
        said = call(home, "lab", "runs", "export-model", *words, rc=4)
    finally:
        readme.write_text(text)
    assert "README.md" in said
    assert not list(tmp_path.iterdir())
