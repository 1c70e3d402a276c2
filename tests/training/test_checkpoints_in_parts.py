"""Checkpoints that are directories, of which each process writes a part, and those written in the background."""

import hashlib
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from labrig.errors import LabError
from labrig.record.files.atomic import sha256
from labrig.record.files.checkpoint_files import (
    link_or_copy,
    metadata_problem,
    put_back,
    take_place,
)
from labrig.record.read.directory_weights import WEIGHTS, read_weights, read_whole
from labrig.record.reproduce.weight_tensors import read_whole_weights
from labrig.training.checkpoints.resume_point import damage_of, whole_checkpoint
from labrig.training.checkpoints.state_copy import copied
from labrig.training.parts.initialise import load_file
from omegaconf import OmegaConf
from projects import call
from trainings import SHORT, add_trial, last, rows, start

MODEL = "model:\n  _target_: .model.net\n"
NET = """
from torch import nn


def net():
    layers = [nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 10)]
    return nn.Sequential(nn.Flatten(), *layers)
"""
# Kills its process while a checkpoint is being written, and changes the weights when a fit ends.
CALLBACKS = """
import os
import signal
import time
from pathlib import Path

import lightning.pytorch as L
import torch

class KillsInSave(L.Callback):
    def on_train_start(self, trainer, task):
        fsync = os.fsync
        def slow(file):
            is_awaited = "KILL" in os.environ and trainer.current_epoch > 0
            if is_awaited and "checkpoints" in os.readlink(f"/proc/self/fd/{file}"):
                time.sleep(3)
            return fsync(file)
        os.fsync = slow

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        begun = list(Path(trainer.default_root_dir, "checkpoints").glob(".last.ckpt.*tmp"))
        if "KILL" in os.environ and trainer.current_epoch == 2 and batch_idx == 3:
            assert begun, "the training goes on while a checkpoint is written"
            os.kill(os.getpid(), signal.SIGKILL)

class Halves(L.Callback):
    def on_fit_end(self, trainer, task):
        with torch.no_grad():
            for weight in task.parameters():
                weight.mul_(0.5)
"""
FSDP = (*SHORT, "trainer.devices=2", "speed.fsdp=true")
PARTS = (*FSDP, "checkpoint.sharded=true")
BACKGROUND = "checkpoint.background=true"


@pytest.fixture(scope="module")
def parted(home):
    """A finished run of two processes, with its checkpoints in parts, written in the background."""
    files = {"config_yaml": MODEL, "model_py": NET, "callbacks_py": CALLBACKS}
    add_trial(home, "parted", **files)
    call(home, "lab", "train", "trial=parted", *PARTS, BACKGROUND)
    return last(home)


def curve(record):
    """The rows without what a clock measured."""
    names = ("step", "epoch", "train/loss", "train/acc", "val/loss", "val/acc", "test/loss")
    return [{name: row[name] for name in names if name in row} for row in rows(record)]


def weights(record, name="last"):
    return read_whole_weights(Path(record["run_dir"], f"checkpoints/{name}.ckpt"))


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name, value in one.items() if not torch.equal(value, other[name])] == []


@pytest.mark.release
def test_a_directory_is_a_checkpoint_everywhere(home, parted, tmp_path):
    checkpoints = Path(parted["run_dir"], "checkpoints")
    names = sorted(path.name for path in checkpoints.iterdir() if path.suffix == ".ckpt")
    assert names == ["best.ckpt", "last.ckpt", "previous.ckpt"]
    held = checkpoints / "last.ckpt"
    listed = subprocess.run(["sha256sum", "--check", "--quiet", "sha256.txt"], cwd=held)
    assert listed.returncode == 0, "what sha256sum understands"
    end = json.loads(Path(parted["run_dir"], "attempts/1/end.json").read_text())
    digest = hashlib.sha256((held / "sha256.txt").read_bytes()).hexdigest()
    assert end["checkpoints"]["last.ckpt"]["sha256"] == digest == sha256(held)
    n_bytes = sum(path.stat().st_size for path in held.iterdir())
    assert end["checkpoints"]["last.ckpt"]["bytes"] == n_bytes
    run_id = parted["run_id"]
    assert "last.ckpt" in call(home, "lab", "runs", "show", run_id)
    call(home, "lab", "runs", "verify", run_id)

    printed = call(home, "lab", "eval", run_id, "trainer.devices=1", "--json")
    metrics = json.loads(printed.splitlines()[-1])
    assert metrics == pytest.approx({name: parted["metrics"][name] for name in metrics}, abs=1e-5)
    call(home, "lab", "eval", run_id, "--checkpoint", "best", "trainer.devices=1")
    call(home, "lab", "predict", run_id, "trainer.devices=1")
    assert "predictions and evaluations are as recorded" in call(
        home, "lab", "runs", "verify", run_id
    )

    archive = tmp_path / "archive.zip"
    call(home, "lab", "runs", "archive", "trial=parted", "-o", archive)
    call(home, "lab", "runs", "verify", archive)
    call(
        home,
        "lab",
        "train",
        "trial=parted",
        *SHORT,
        f"init_from={run_id}:best",
        "trainer.max_epochs=1",
    )
    begun = last(home)
    assert begun["init_from"]["sha256"] == sha256(checkpoints / "best.ckpt")
    copy = shutil.copytree(checkpoints / "best.ckpt", tmp_path / "elsewhere.ckpt")
    call(home, "lab", "train", "trial=parted", *SHORT, f"init_from={copy}", "trainer.max_epochs=1")
    assert_same(weights(begun), weights(last(home)))


@pytest.mark.release
@pytest.mark.slow
def test_parts_change_no_number(home, parted):
    call(home, "lab", "train", "trial=parted", *FSDP)
    whole = last(home)
    assert curve(whole) == curve(parted)
    for name in ("last", "previous", "best"):
        assert_same(weights(whole, name), weights(parted, name))


@pytest.mark.release
@pytest.mark.slow
def test_the_background_changes_no_number(home, parted):
    records = []
    for background in ("false", "true"):
        call(home, "lab", "train", "trial=parted", *SHORT, f"checkpoint.background={background}")
        records.append(last(home))
    assert curve(records[0]) == curve(records[1])
    for name in ("last", "previous", "best"):
        files = [Path(record["run_dir"], f"checkpoints/{name}.ckpt") for record in records]
        one, other = (torch.load(file, weights_only=True) for file in files)
        assert_same(one["state_dict"], other["state_dict"])
        assert str(one["optimizer_states"]) == str(other["optimizer_states"])
        assert files[0].stat().st_size == pytest.approx(files[1].stat().st_size, rel=0.01)


@pytest.mark.slow
def test_a_run_in_parts_continues_exactly(home, parted):
    """It is stopped in the middle of an epoch, just after a save has begun."""
    call(home, "lab", "train", "trial=parted", *PARTS, BACKGROUND, rc=130, LAB_STOP_STEP="7")
    stopped = last(home)
    call(home, "lab", "resume", stopped["run_id"])
    resumed = last(home)
    assert resumed["run_id"] == stopped["run_id"]
    assert_same(weights(resumed), weights(parted))
    assert curve(resumed)[-1] == curve(parted)[-1]


@pytest.mark.release
@pytest.mark.slow
def test_one_process_continues_what_two_have_saved_and_two_what_one_has(home, parted):
    settings = ("speed.fsdp=true", "checkpoint.sharded=true", "trainer.max_epochs=3")
    words = ("trial=parted", *SHORT, *settings)
    call(home, "lab", "train", *words, rc=130, LAB_STOP_STEP="5")
    run_dir = Path(last(home)["run_dir"])
    newest = run_dir / "checkpoints/last.ckpt"
    assert newest.is_file(), "a process alone holds no part"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    of_launcher = {
        "TORCHELASTIC_RUN_ID": "x",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "LAB_RUN_DIR": str(run_dir),
        "LAB_NEXT_ATTEMPT": "2",
        "LAB_STOP_STEP": "9",
    }
    ranks = [
        start(home, command="rank", until=None, **of_launcher, RANK=n, LOCAL_RANK=n)[0]
        for n in "01"
    ]
    said = [process.communicate(timeout=200)[0] for process in ranks]
    assert newest.is_dir(), said
    before = read_whole_weights(newest)
    call(home, "lab", "resume", run_dir.name)
    assert newest.is_file()
    content = torch.load(newest, weights_only=True)
    steps = {float(entry["step"]) for entry in content["optimizer_states"][0]["state"].values()}
    assert steps == {content["global_step"]}, "the optimizer went on"
    assert content["global_step"] > 9
    assert any(
        not torch.equal(before[name], value) for name, value in read_whole_weights(newest).items()
    )
    assert last(home)["status"] == "finished"
    call(home, "lab", "runs", "verify", run_dir.name)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("settings", [SHORT, PARTS], ids=["file", "parts"])
def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(home, parted, settings):
    words = (
        "trial=parted",
        *settings,
        BACKGROUND,
        "trainer.max_epochs=4",
        "trainer.limit_val_batches=1",
    )
    words += ("+callbacks.kill={_target_: .callbacks.KillsInSave}",)
    process, _ = start(home, *words, until=None, KILL="1")
    process.communicate(timeout=200)
    assert process.returncode != 0
    killed = last(home)
    checkpoints = Path(killed["run_dir"], "checkpoints")
    assert damage_of(whole_checkpoint(checkpoints)) is None
    assert list(checkpoints.glob(".last.ckpt.*tmp")), "it was killed in the middle of a save"
    call(home, "lab", "resume", killed["run_id"])
    call(home, "lab", "train", *words)
    assert_same(weights(killed), weights(last(home)))


@pytest.mark.release
def test_what_is_tested_stands_in_the_directory_too(home, parted):
    said = call(
        home,
        "lab",
        "train",
        "trial=parted",
        *PARTS,
        "+callbacks.halves={_target_: .callbacks.Halves}",
    )
    assert "the weights were changed after the last step" in said
    record = last(home)
    for name, value in weights(parted).items():
        if not name.startswith("model.2.") or name.endswith(("weight", "bias")):
            torch.testing.assert_close(weights(record)[name], value / 2)
    printed = call(home, "lab", "eval", record["run_id"], "trainer.devices=1", "--json")
    metrics = json.loads(printed.splitlines()[-1])
    assert metrics == pytest.approx({name: record["metrics"][name] for name in metrics}, abs=1e-5)
    call(home, "lab", "runs", "verify", record["run_id"])
    directory = Path(record["run_dir"], "checkpoints/last.ckpt")
    of_last_step = read_whole(directory, WEIGHTS)["state_dict"]
    assert_same(of_last_step, weights(parted))
    call(home, "lab", "resume", record["run_id"], "trainer.max_epochs=3")
    resumed = read_whole(directory, WEIGHTS)["state_dict"]
    call(home, "lab", "resume", parted["run_id"], "trainer.max_epochs=3")
    assert_same(resumed, weights(parted))


@pytest.mark.slow
def test_a_damaged_part_is_found(home, parted, tmp_path):
    source = Path(parted["run_dir"], "checkpoints")
    checkpoints = shutil.copytree(source, tmp_path / "checkpoints")
    assert damage_of(checkpoints / "last.ckpt") is None
    part = checkpoints / "last.ckpt/__1_0.distcp"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.unlink()
    part.write_bytes(content)
    assert "__1_0.distcp has other bytes" in damage_of(checkpoints / "last.ckpt")
    assert whole_checkpoint(checkpoints).name == "previous.ckpt"
    (checkpoints / "previous.ckpt/meta.pt").unlink()
    with pytest.raises(LabError, match=r"its part meta.pt is missing(.|\n)*cp -rT .*best.ckpt"):
        whole_checkpoint(checkpoints)
    with pytest.raises(LabError, match="has other bytes"):
        load_file(None, checkpoints / "last.ckpt", OmegaConf.create({}))


class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("content", [pickle.dumps(Runs()), b"", b"no pickle"])
def test_a_directory_cannot_run_code(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "last.ckpt"
    directory.mkdir()
    (directory / ".metadata").write_bytes(content)
    assert metadata_problem(directory)
    with pytest.raises(LabError, match="cannot be read as a checkpoint"):
        read_weights(directory)
    assert not Path("ran").exists()


def filled(directory, text):
    directory.mkdir()
    (directory / "part").write_text(text)
    return directory


def test_a_directory_takes_the_place_of_another_one(tmp_path):
    best = filled(tmp_path / "best.ckpt", "old")
    take_place(filled(tmp_path / "new", "new"), best)
    assert (best / "part").read_text() == "new"
    assert os.listdir(tmp_path) == ["best.ckpt"]
    link_or_copy(best, tmp_path / "last.ckpt")
    assert (tmp_path / "last.ckpt/part").samefile(best / "part"), "no second copy on the disk"


def test_a_crash_between_two_renames_is_put_right(tmp_path, monkeypatch):
    best = filled(tmp_path / "best.ckpt", "old")
    replace = os.replace

    def killed(source, target):
        if Path(source).name == "new":
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        take_place(filled(tmp_path / "new", "new"), best)
    monkeypatch.setattr(os, "replace", replace)
    assert not best.exists()
    put_back(tmp_path)
    assert (best / "part").read_text() == "old"


# The first process is slow to remove what a crash has left.
SAVES = """
import sys
import time

import torch
from labrig.training.checkpoints import in_parts

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
)
remove, write_parts = in_parts.remove, in_parts.write_parts

def removes_late(path):
    time.sleep(2)
    remove(path)
    print(time.monotonic())

def says_when(*arguments):
    if rank == 1:
        print(time.monotonic())
    return write_parts(*arguments)

in_parts.remove, in_parts.write_parts = removes_late, says_when
checkpoint = {"state_dict": {"weight": torch.ones(2)}, "optimizer_states": [], "epoch": 1}
io = in_parts.PartsIO()
io.save_parts(checkpoint, f"{folder}/last.ckpt", "state_dict")
assert io.error is None, io.error
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


@pytest.mark.release
@pytest.mark.slow
def test_nobody_writes_a_part_before_the_directory_is_empty(tmp_path):
    (tmp_path / ".last.ckpt.tmp").mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVES, str(rank), tmp_path], stdout=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    removed_s, written_s = (float(each.communicate(timeout=120)[0]) for each in processes)
    assert removed_s < written_s
    assert read_weights(tmp_path / "last.ckpt")["weight"].tolist() == [1, 1]
    assert not (tmp_path / ".last.ckpt.tmp").exists()


def test_a_copy_in_memory_shares_what_was_shared():
    weight = torch.arange(6.0).reshape(2, 3)
    content = {"a": weight, "b": [weight.T, weight[1]], "n": 1, "sparse": weight.to_sparse()}
    copy = copied(content)
    weight += 1
    assert torch.equal(copy["a"], weight - 1)
    assert torch.equal(copy["b"][0], copy["a"].T)
    assert copy["b"][1].untyped_storage().data_ptr() == copy["a"].untyped_storage().data_ptr()
    assert copy["n"] == 1
    assert copy["sparse"].layout == torch.sparse_coo
