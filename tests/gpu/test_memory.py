"""Peaks, snapshots, and memory that really runs out."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from conftest import call
from gpu_runs import GPU, train
from myproj.lab.machine.gpu import gpus, peak_gpu_bytes
from requirements import gpu
from trainings import add_trial, last

pytestmark = gpu
# Each sample of a batch holds so much on the device: a batch is too large soon, and quickly
HUNGRY = """
import torch
from torch import nn


class Hungry(nn.Module):
    def __init__(self, sample_mb=64):
        super().__init__()
        self.sample_mb = sample_mb
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        n_values = len(image_B1HW) * self.sample_mb * 250_000
        held = torch.zeros(n_values, device=image_B1HW.device)
        return self.head(image_B1HW.flatten(1)) + held[0] * held[-1]
"""


@pytest.fixture(scope="module")
def hungry(home):
    """The shared project with a trial of which about eight samples fill the GPU."""
    sample_mb = gpus()[0].free_MB // 8
    config = f"model:\n  _target_: .model.Hungry\n  sample_mb: {sample_mb}\n"
    add_trial(home, "hungry", model_py=HUNGRY, config_yaml=config)
    return home


def test_the_peak_is_that_of_the_allocator():
    torch.cuda.reset_peak_memory_stats()
    torch.ones(10**9 // 4, device="cuda")
    assert peak_gpu_bytes() >= 10**9
    assert peak_gpu_bytes() == torch.cuda.max_memory_reserved()


def test_the_record_holds_the_peak(home):
    record = train(home, "trainer.max_epochs=1")
    end = json.loads(Path(record["run_dir"], "attempts/1/end.json").read_text())
    assert 1e6 < end["peak_gpu_bytes"] < gpus()[0].memory_MB << 20


def test_a_snapshot_of_the_memory_can_be_opened(home):
    record = train(home, "trainer.max_epochs=1", "profile=memory")
    (file,) = Path(record["run_dir"]).glob("profile/cuda-memory-rank0.pickle")
    snapshot = pickle.loads(file.read_bytes())
    assert snapshot["segments"]
    assert any(snapshot["device_traces"])


def test_a_batch_that_is_too_large_is_told(hungry):
    words = ("trial=hungry", *GPU, "data.batch_size=64", "trainer.max_epochs=1")
    output = call(hungry, "lab", "train", *words, rc=1, cold=True)
    assert "out of memory" in output
    assert last(hungry)["status"] == "failed"
    with pytest.raises(AssertionError, match=r"data\.batch_size"):
        call(hungry, "lab", "bench", *words, "--steps=2", cold=True)


def test_the_largest_batch_is_searched_down_from_the_first_that_does_not_fit(hungry):
    words = ("trial=hungry", *GPU, "model.sample_mb=100", "--sweep=batch=8..65536", "--steps=2")
    output = call(hungry, "lab", "bench", *words, "--json", cold=True, timeout_s=900)
    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    result = json.loads(line)
    fits_MB = 100 * result["largest"]
    assert fits_MB < gpus()[0].memory_MB < 100 * result["refused"] * 1.1
    assert result["refused"] - result["largest"] <= max(8, result["largest"] // 8)
