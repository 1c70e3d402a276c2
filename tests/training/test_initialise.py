"""A training starts from other weights: names and shapes are fitted, and told; a resume keeps its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lightning.pytorch as L
import pytest
import torch
from hub_server import COMMIT, hub_with
from labrig.errors import LabError
from labrig.record.reproduce.weight_tensors import read_tensors
from labrig.record.write.inputs import resolve_weights
from labrig.training.parts.initialise import load_file, match_tensors
from omegaconf import OmegaConf
from projects import call, environment_of
from record_package import make_project
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


def test_a_beginning_that_no_tensor_has_is_refused(tmp_path):
    file = tmp_path / "pretrained.pt"
    torch.save(Task().state_dict(), file)
    misspelt = OmegaConf.create({"prefix": {"model.head.": None}, "mismatch": "refuse"})
    with pytest.raises(LabError, match=r"begins with 'model.head.'\.\n  there: model.0.weight"):
        load_file(Task(), file, misspelt)


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


def shards_in(folder, tensors, n=2):
    """The tensors as `n` .safetensors files with their index, as large models are published."""
    folder.mkdir(parents=True, exist_ok=True)
    weight_map = {}
    for i in range(n):
        name = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = {key: tensors[key] for key in sorted(tensors)[i::n]}
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return sorted(folder.iterdir())


def test_a_folder_of_several_files_is_loaded_and_hashed_as_one(tmp_path):
    own = make_project(tmp_path / "project")
    wanted = {name: torch.randn_like(value) for name, value in Task().state_dict().items()}
    folder = own.root / "weights"
    files = shards_in(folder, wanted)
    found = resolve_weights("weights", own)
    assert found["path"] == str(folder / "model.safetensors.index.json")
    assert found["size_bytes"] == sum(file.stat().st_size for file in files)
    task = Task()
    assert not load_file(task, Path(found["path"]), KEEP).missing
    assert all(torch.equal(task.state_dict()[name], value) for name, value in wanted.items())
    copy = {**wanted, "model.1.bias": wanted["model.1.bias"] + 1}
    shards_in(tmp_path / "copy", wanted)
    assert resolve_weights(str(tmp_path / "copy"), own)["sha256"] == found["sha256"]
    shards_in(tmp_path / "copy", copy)
    assert resolve_weights(str(tmp_path / "copy"), own)["sha256"] != found["sha256"]
    (tmp_path / "copy/model-00002-of-00002.safetensors").unlink()
    with pytest.raises(LabError, match=r"00002-of-00002\.safetensors, which is not there"):
        resolve_weights(str(tmp_path / "copy"), own)
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(LabError, match=r"says which belong together\. Name one file: init_from="):
        resolve_weights("weights", own)
    with pytest.raises(LabError, match="there is no file"):
        read_tensors(tmp_path / "gone.safetensors")


@pytest.mark.parametrize(
    "content",
    ["no json", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": "../other.safetensors"}}'],
)
def test_an_index_names_files_next_to_it(tmp_path, content):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(LabError, match=r"is no index of \.safetensors files"):
        read_tensors(index)


def test_a_check_compares_shapes_by_the_headers_alone(tmp_path, monkeypatch):
    """The file has no data that could be read; the header alone says that a shape differs."""
    wanted = Task().state_dict()
    index = shards_in(tmp_path, {**wanted, "model.1.bias": torch.ones(99)})[-1]
    for shard in tmp_path.glob("*.safetensors"):
        header = 8 + int.from_bytes(shard.read_bytes()[:8], "little")
        size = shard.stat().st_size
        os.truncate(shard, header)
        os.truncate(shard, size)  # zeros in place of the data
    with pytest.raises(LabError, match=r"model.1.bias: \[99\] there, \[\d+\] here"):
        load_file(Task(), index, KEEP, shapes_only=True)
    task = Task()
    before = {name: value.clone() for name, value in task.state_dict().items()}
    match = load_file(task, index, OmegaConf.merge(KEEP, {"mismatch": "skip"}), shapes_only=True)
    assert len(match.tensors) == len(wanted) - 1
    assert all(torch.equal(task.state_dict()[name], value) for name, value in before.items())


def test_names_that_adapters_have_changed_are_known():
    wrapped = "model.base_model.model.h.0.attn.base_layer.weight"
    adapter = "model.base_model.model.h.0.attn.lora_A.default.weight"
    match = match_tensors(
        {"h.0.attn.weight": torch.ones(2)}, {wrapped: torch.ones(2), adapter: torch.ones(1)}, {}
    )
    assert list(match.tensors) == [wrapped]
    assert match.missing == [adapter]


@pytest.mark.slow
def test_several_files_of_the_hub_are_fetched_and_found_without_a_network(tmp_path):
    files = shards_in(tmp_path / "files", Task().state_dict())
    fetching = [sys.executable, "-m", "labrig.machine.hub", "hf:org/digits"]
    finding = (
        "from labrig.machine.hub import *\n"
        "try: print(*find_cached(HubFile.parse('hf:org/digits')))\n"
        "except LabError as error: print(error)"
    )
    with hub_with(tmp_path / "hub", *files) as variables:
        online = {**os.environ, **variables}
        subprocess.run(fetching, env=online, check=True, timeout=120)
    offline = {**online, "HF_HUB_OFFLINE": "1"}
    found = subprocess.run(
        [sys.executable, "-c", finding], env=offline, capture_output=True, text=True, timeout=120
    )
    reference, path = found.stdout.split()
    assert reference == f"hf:org/digits@{COMMIT}:model.safetensors.index.json"
    names = {f"model.{name}" for name in Task().model.state_dict()}
    assert read_tensors(Path(path)).keys() == names
    Path(path).with_name(files[0].name).unlink()
    missing = subprocess.run(
        [sys.executable, "-c", finding], env=offline, capture_output=True, text=True, timeout=120
    )
    assert "is not whole in this machine's cache" in missing.stdout


@pytest.mark.release
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
