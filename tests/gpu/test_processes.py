"""NCCL with one rank and with two, and parameters that FSDP2 spreads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import free_port
from conftest import SOURCE
from gpu_runs import EXACT, losses, train
from requirements import gpu, nccl, two_gpus

pytestmark = [gpu, nccl]
TWO = ("trainer.devices=2", "trainer.max_epochs=2", "batch.global=64", *EXACT)
ONE_RANK = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from myproj.lab.training.accelerate import shard

dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
ones = torch.ones(1000, device="cuda")
dist.all_reduce(ones)
assert ones.sum().item() == 1000


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


torch.manual_seed(0)
task = Task().cuda()
x = torch.randn(32, 64, device="cuda")
before = task.model(x)
task.device_mesh = {"data_parallel": init_device_mesh("cuda", (1,))}
shard(task, [task.model])
after = task.model(x)
torch.testing.assert_close(before, after)
after.sum().backward()
assert all(type(parameter).__name__ == "DTensor" for parameter in task.model.parameters())
dist.destroy_process_group()
print("the sum and the sharded network are right")
"""


def test_one_rank_reduces_and_shards():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment = os.environ | address | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", ONE_RANK],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are right" in done.stdout


@two_gpus
def test_two_ranks_learn_what_one_learns(home):
    two = train(home, *TWO)
    one = train(home, "trainer.max_epochs=2", "data.batch_size=64", *EXACT)
    assert losses(two) == pytest.approx(losses(one), rel=1e-2)


@two_gpus
def test_spread_parameters_learn_the_same(home):
    sharded = train(home, *TWO, "speed.fsdp=true")
    whole = train(home, *TWO)
    assert losses(sharded) == pytest.approx(losses(whole), rel=1e-2)
    checkpoint = Path(sharded["run_dir"], "checkpoints/last.ckpt")
    assert torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
