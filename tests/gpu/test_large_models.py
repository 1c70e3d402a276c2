"""Large models: layers shared by two GPUs, checkpoints in parts and in the background, bfloat16 from float32."""

from pathlib import Path

import pytest
import torch
from gpu_runs import EXACT, GPU, checkpoint, first_attempt, lab, losses, train
from in_process import LINEAR
from labrig.record.reproduce.weight_tensors import read_whole_weights
from rehearsal import DEVICE, only_a_gpu_shows
from requirements import ampere, gpu, nccl, two_gpus
from trainings import add_trial, last

pytestmark = [gpu, nccl]
NET = """
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, image_B1HW):
        return self.layers(image_B1HW)

    def parallelize(self, mesh):
        parallelize_module(self.layers, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
"""
SHORT = (*GPU, *EXACT, "trainer.max_epochs=2", "log.every_n_steps=5")
LAYERS = ("trial=gpu_layers", *SHORT)
DETERMINISTIC = "record.deterministic=true"
TWO = ("trainer.devices=2", "data.batch_size=32", "batch.global=64")


@pytest.fixture(scope="module")
def own(home):
    add_trial(home, "gpu_layers", config_yaml="model:\n  _target_: .model.Net\n", model_py=NET)
    return home


def weights(record):
    return read_whole_weights(Path(record["run_dir"], "checkpoints/last.ckpt"))


def test_one_gpu_shares_its_layers_with_nobody(own):
    said = lab(own, "train", *LAYERS, "trainer.devices=1", "speed.tensor_parallel=2", rc=1)
    assert "speed.tensor_parallel=2 needs a multiple of 2 processes, but there are 1" in said


@two_gpus
def test_two_gpus_share_the_layers_and_learn_what_one_learns(own):
    one = losses(train(own, trial=LAYERS))
    assert len(one) > 5
    shared = ("trainer.devices=2", "speed.tensor_parallel=2", "batch.global=64")
    assert losses(train(own, *shared, trial=LAYERS)) == pytest.approx(one, rel=1e-3)


@two_gpus
def test_a_checkpoint_in_parts_holds_the_same_and_is_continued(own):
    words = (*TWO, "speed.fsdp=true", DETERMINISTIC)
    whole = train(own, *words, trial=LAYERS)
    parts = train(own, *words, "checkpoint.sharded=true", trial=LAYERS)
    assert Path(parts["run_dir"], "checkpoints/last.ckpt").is_dir()
    one, other = weights(whole), weights(parts)
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    n_rows = len(losses(parts))
    lab(own, "resume", parts["run_id"], "trainer.max_epochs=3")
    assert len(losses(last(own))) > n_rows


def test_a_checkpoint_in_the_background_holds_what_the_gpu_had_then(own):
    words = ("trial=baseline", *LINEAR, *SHORT, DETERMINISTIC)
    before = checkpoint(train(own, trial=words))["state_dict"]
    saved = train(own, "checkpoint.background=true", trial=words)
    after = checkpoint(saved)["state_dict"]
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert all(tensor.device.type == "cpu" for tensor in after.values())


@ampere
def test_float32_weights_are_tuned_in_bfloat16(own):
    words = ("trial=baseline", *LINEAR, *GPU, "trainer.max_epochs=2", "log.every_n_steps=5")
    source = train(own, trial=words)
    more = ("trainer.precision=bf16-mixed", f"init_from={source['run_id']}:last")
    tuned = train(own, *more, trial=words)
    assert first_attempt(tuned)["init_from"]["run"] == source["run_id"]
    assert losses(tuned)[0] < losses(source)[0], "it began where the other one ended"
    dtypes = {tensor.dtype for tensor in checkpoint(tuned)["state_dict"].values()}
    assert torch.bfloat16 not in dtypes, "the weights stay float32; only the computation is shorter"
    assert DEVICE == "cpu" or first_attempt(tuned)["accelerator"] == "gpu"
    only_a_gpu_shows("that its kernels compute in bfloat16")
