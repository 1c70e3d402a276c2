"""examples/finetune: adapters of PEFT as a trial, against a plain loop; a checkpoint with the adapters alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import lightning.pytorch as L
import pytest
import torch
from labrig.errors import LabError
from labrig.record.reproduce import weight_tensors
from labrig.training.parts import initialise as leave_out
from labrig.training.parts.initialise import LeaveOutInitial
from omegaconf import OmegaConf
from projects import ROOT, call, copy_project, environment_of, equip
from record_package import make_project
from trainings import SHORT, last, rows

pytest.importorskip("peft")
WORDS = ("trial=finetune", *SHORT, "trainer.max_epochs=1", "trainer.limit_train_batches=4")
PLAIN = """
import json
import lightning.pytorch as L
import torch
from myproj.trials.finetune.data import SortedDigits
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
L.seed_everything(0)
base = AutoModelForCausalLM.from_pretrained("data/base", dtype=torch.float32)
model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
data = SortedDigits(
    path="finetune.h5", search=["data"], batch_size=16, seed=0, fields=["token", "place", "counts"]
)
data.setup("fit")
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=DECAY)
losses = []
model.train()
for n, batch in zip(range(4), data.train_dataloader()):
    token, place, counts = data.on_after_batch_transfer(batch, 0)
    with torch.autocast("cpu", torch.bfloat16):
        score = model(input_ids=token, position_ids=place, use_cache=False).logits[:, :-1]
        wanted = token.masked_fill(~counts, -100)[:, 1:].flatten()
        loss = F.cross_entropy(score.flatten(0, 1).float(), wanted)
    losses.append(loss.item())
    (loss / 2).backward()
    if n % 2:
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps(losses))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A project with the example, its base (a few steps old) and its data."""
    folder = equip(copy_project(tmp_path_factory.mktemp("finetune") / "myproj"))
    trial = folder / "src/myproj/trials/finetune"
    shutil.copytree(ROOT / "examples/finetune", trial, ignore=shutil.ignore_patterns("__pycache__"))
    call(folder, sys.executable, trial / "make_base.py", "data/base", 3)
    call(folder, "lab", "data", "pack", "finetune")
    return folder


def train(own, *settings):
    call(own, "lab", "train", *WORDS, "log.every_n_steps=1", "schedule=constant", *settings)
    return last(own)


def checkpoint_of(record):
    return torch.load(Path(record["run_dir"], "checkpoints/last.ckpt"), weights_only=True)


@pytest.mark.release
@pytest.mark.slow
def test_the_losses_are_those_of_a_plain_loop_of_peft(own):
    """Mixed precision, accumulation, clipping and recomputed layers, by settings here and by hand there."""
    record = train(own)
    losses = [row["train/loss"] for row in rows(record) if "train/loss" in row]
    program = f"DECAY = {record['settings']['optimizer']['weight_decay']}\n{PLAIN}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=own, capture_output=True, text=True, timeout=300,
        env=environment_of(own, PYTHONPATH="src"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, third, fourth = json.loads(done.stdout.splitlines()[-1])
    assert losses == [(first + second) / 2, (third + fourth) / 2]
    assert losses[1] != losses[0]


@pytest.mark.release
def test_a_checkpoint_of_adapters_is_whole_wherever_it_is_read(own, tmp_path):
    small = train(own, "trainer.max_epochs=2")
    large = train(own, "trainer.max_epochs=2", "checkpoint.leave_out_initial=false")
    alone, whole = checkpoint_of(small), checkpoint_of(large)
    assert all("lora_" in name for name in alone["state_dict"])
    assert len(whole["state_dict"]) > len(alone["state_dict"])
    # Every byte that was left out comes back: for comparisons, load, init_from, and the test of lab eval.
    said = call(own, "lab", "runs", "verify", small["run_id"], large["run_id"])
    assert "bitwise: metrics are identical and so are the weights" in said
    program = "from labrig import load; import sys, torch; torch.save(load(sys.argv[1]).state_dict(), sys.argv[2])"
    call(own, sys.executable, "-c", program, small["run_id"], tmp_path / "loaded.pt")
    loaded = torch.load(tmp_path / "loaded.pt")
    assert all(torch.equal(whole["state_dict"][f"model.{name}"], loaded[name]) for name in loaded)
    assert len(loaded) == len(whole["state_dict"])
    call(own, "lab", "eval", small["run_id"])
    said = call(own, "lab", "train", *WORDS, f"init_from={small['run_id']}")
    assert "starts from" in said
    assert "72 of 72 tensors" in said
    # A run that was stopped in the middle ends alike.
    train(own)
    call(own, "lab", "resume", "@last", "trainer.max_epochs=2")
    resumed = last(own)
    continued = checkpoint_of(resumed)["state_dict"]
    assert continued.keys() == alone["state_dict"].keys()
    assert all(torch.equal(continued[name], value) for name, value in alone["state_dict"].items())
    # Without the weights, or with others in their place, nothing is made up.
    shard = max((own / "data/base").glob("model-*.safetensors"))
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        said = call(own, "lab", "resume", resumed["run_id"], "trainer.max_epochs=3", rc=3)
        assert "last.ckpt leaves out" in said
        assert "have changed" in said
    finally:
        shard.write_bytes(content)


@pytest.mark.release
@pytest.mark.slow
def test_predictions_are_generated_answers(own):
    record = train(own)
    call(own, "lab", "predict", record["run_id"])
    (file,) = Path(record["run_dir"], "predictions").glob("*.h5")
    with h5py.File(file) as predictions:
        right = predictions["data/right"][:]
    assert ((right >= 0) & (right <= 1)).all()
    assert len(right) > 10


@pytest.mark.release
@pytest.mark.slow
def test_texts_that_share_a_row_do_not_see_each_other(own):
    program = """
import torch
from myproj.trials.finetune.model import with_adapters
torch.manual_seed(0)
model = with_adapters("data/base", 8, 16).eval()
first, second = torch.tensor([[2, 3, 12, 5]]), torch.tensor([[7, 8, 9]])
both = torch.cat([first, second], 1)
places = torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
apart = model(input_ids=second, position_ids=places[:, 4:], use_cache=False).logits
packed = model(input_ids=both, position_ids=places, use_cache=False).logits[:, 4:]
seen = model(input_ids=both, use_cache=False).logits[:, 4:]
assert torch.allclose(apart, packed, atol=1e-5), (apart - packed).abs().max()
assert not torch.allclose(apart, seen, atol=1e-3)
print("alike")
"""
    assert "alike" in call(own, sys.executable, "-c", program, PYTHONPATH="src")


def task_with(frozen):
    task = L.LightningModule()
    task.model = torch.nn.Linear(2, 2)
    task.model.requires_grad_(not frozen)
    return task


def test_what_cannot_be_left_out_is_refused(monkeypatch, tmp_path):
    def settings(**changes):
        return OmegaConf.create(
            {"checkpoint": {"sharded": False}, "init": {"prefix": {}}} | changes
        )

    for wrong in (settings(), settings(init_from="x.pt", checkpoint={"sharded": True})):
        with pytest.raises(LabError, match=r"needs init_from=\.\.\., and checkpoint.sharded=false"):
            LeaveOutInitial(wrong)
    file = tmp_path / "weights.pt"
    torch.save(task_with(True).model.state_dict(), file)
    own = make_project(tmp_path / "project")
    monkeypatch.setattr(leave_out, "this_project", lambda: own)
    callback = LeaveOutInitial(settings(init_from=str(file)))
    with pytest.raises(LabError, match="finds nothing to leave out"):
        callback.on_train_start(L.Trainer(logger=False), task_with(False))


def test_only_what_is_still_as_in_the_file_is_left_out(monkeypatch, tmp_path):
    own = make_project(tmp_path / "project")
    monkeypatch.setattr(leave_out, "this_project", lambda: own)
    monkeypatch.setattr(weight_tensors, "this_project", lambda: own)
    task = task_with(True)
    torch.save(task.model.state_dict(), tmp_path / "weights.pt")
    init = {"init_from": str(tmp_path / "weights.pt"), "init": {"prefix": {}}}
    callback = LeaveOutInitial(OmegaConf.create({"checkpoint": {"sharded": False}, **init}))
    trainer = L.Trainer(logger=False, enable_checkpointing=False)
    callback.on_train_start(trainer, task)
    with torch.no_grad():
        task.model.bias.data.add_(
            1
        )  # as the teacher of a momentum encoder, which no gradient reaches
    content = {"state_dict": task.state_dict()}
    callback.on_save_checkpoint(trainer, task, content)
    assert list(content["state_dict"]) == ["model.bias"]
    torch.save(content, tmp_path / "last.ckpt")
    back = weight_tensors.read_tensors(tmp_path / "last.ckpt")
    assert all(torch.equal(back[name], value) for name, value in task.state_dict().items())
    content["left_out"]["names"] = ["model.weight"]
    with pytest.raises(LabError, match="does not say which weights it leaves out"):
        weight_tensors.with_left_out(content, tmp_path / "last.ckpt")
