"""NCCL with one rank and with two, and parameters that FSDP2 spreads."""

import os
import subprocess
import sys

import pytest
from commands import free_port
from gpu_runs import EXACT, GPU, checkpoint, losses, train
from in_process import LINEAR
from projects import SOURCE
from rehearsal import DEVICE
from requirements import gpu, nccl, two_gpus

pytestmark = [gpu, nccl]
# Without dropout and BatchNorm, which differ between one process and two
TRIAL = (*LINEAR, *GPU, *EXACT, "trainer.max_epochs=2", "log.every_n_steps=5")
ONE = ("data.batch_size=64",)
TWO = ("trainer.devices=2", "data.batch_size=32", "batch.global=64")
ONE_RANK = """
import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from labrig.training.parts.accelerate import shard

device = sys.argv[1]
backend = "nccl" if device == "cuda" else "gloo"
device_id = torch.device("cuda", 0) if device == "cuda" else None
dist.init_process_group(backend, rank=0, world_size=1, device_id=device_id)
ones = torch.ones(1000, device=device)
dist.all_reduce(ones)
assert ones.sum().item() == 1000


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def after_two_steps(task):
    optimizer = torch.optim.SGD(task.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        task.model(x).square().mean().backward()
        optimizer.step()
    return task.model(x)


torch.manual_seed(0)
whole = Task().to(device)
sharded = copy.deepcopy(whole)
x = torch.randn(32, 64, device=device)
sharded.device_mesh = init_device_mesh(
    device, (1, 1), mesh_dim_names=("data_parallel", "tensor_parallel")
)
shard(sharded, lambda: None)
assert all(type(parameter).__name__ == "DTensor" for parameter in sharded.parameters())
torch.testing.assert_close(after_two_steps(sharded), after_two_steps(whole))
dist.destroy_process_group()
print("the sum and the sharded network are right")
"""


def test_one_rank_reduces_and_shards():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment = os.environ | address | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", ONE_RANK, DEVICE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are right" in done.stdout


@two_gpus
def test_two_ranks_learn_what_one_learns(home):
    one = losses(train(home, *ONE, trial=TRIAL))
    assert len(one) > 5
    assert losses(train(home, *TWO, trial=TRIAL)) == pytest.approx(one, rel=1e-3)


@two_gpus
def test_spread_parameters_learn_the_same(home):
    whole = train(home, *ONE, trial=TRIAL)
    sharded = train(home, *TWO, "speed.fsdp=true", trial=TRIAL)
    assert losses(sharded) == pytest.approx(losses(whole), rel=1e-3)
    shapes = [
        {name: tensor.shape for name, tensor in checkpoint(record)["state_dict"].items()}
        for record in (whole, sharded)
    ]
    assert shapes[0] == shapes[1], "a checkpoint holds whole parameters"
