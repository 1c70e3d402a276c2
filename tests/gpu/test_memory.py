"""Peaks, snapshots, and memory that really runs out."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from commands import json_line
from gpu_runs import GPU, lab, python_path, train
from labrig.machine.gpu import peak_gpu_bytes
from projects import call
from rehearsal import REHEARSED, only_a_gpu_shows
from requirements import gpu
from trainings import add_trial, last

pytestmark = gpu
# Each sample of a batch holds so much on the device: a batch is too large soon, and quickly.
# Each by itself: a product that takes a little of the memory of a batch would block all of it for the next one.
HUNGRY = """
import torch
from torch import nn


class Hungry(nn.Module):
    def __init__(self, sample_mb):
        super().__init__()
        self.sample_mb = sample_mb
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        size = self.sample_mb * 10**6
        held = [torch.empty(size, dtype=torch.uint8, device=image.device) for image in image_B1HW]
        return self.head(image_B1HW.flatten(1)) + 0.0 * len(held)
"""
# A rehearsal gives the process so many addresses, of which torch takes about the difference
LIMIT_MB, FREE_MB = 16_000, 14_000
NO_MEMORY = "can't allocate memory" if REHEARSED else "out of memory"


def free_MB():
    """Memory that a process can have on the GPU."""
    if REHEARSED:
        return FREE_MB
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0] // 10**6


def lab_until_full(home, *words, rc=0):
    """A command that may take all memory."""
    if not REHEARSED:
        return lab(home, *words, rc=rc, timeout_s=900)
    command = ["prlimit", f"--as={LIMIT_MB}000000", "lab", *words]
    return call(home, *command, rc=rc, PYTHONPATH=python_path(home))


@pytest.fixture(scope="module")
def hungry(home):
    """The shared project with a trial of which about 100 samples fill the GPU."""
    config = f"model:\n  _target_: .model.Hungry\n  sample_mb: {free_MB() // 100}\n"
    add_trial(home, "hungry", model_py=HUNGRY, config_yaml=config)
    return home


def test_the_peak_is_that_of_the_allocator():
    only_a_gpu_shows("torch's allocator of a GPU")
    torch.cuda.reset_peak_memory_stats()
    torch.ones(10**9 // 4, device="cuda")
    assert peak_gpu_bytes() >= 10**9
    assert peak_gpu_bytes() == torch.cuda.max_memory_reserved()


def test_the_record_holds_the_peak(home):
    record = train(home, "trainer.max_epochs=1")
    end = json.loads(Path(record["run_dir"], "attempts/1/end.json").read_text())
    peak_bytes = end["peak_gpu_bytes"]
    only_a_gpu_shows("the peak of a GPU")
    assert 1e6 < peak_bytes < torch.cuda.mem_get_info()[1]


def test_a_snapshot_of_the_memory_can_be_opened(home):
    record = train(home, "trainer.max_epochs=1", "profile=memory")
    (file,) = Path(record["run_dir"]).glob("profile/*memory-rank0.*")
    only_a_gpu_shows("the memory of a GPU")
    assert file.name == "cuda-memory-rank0.pickle"
    snapshot = pickle.loads(file.read_bytes())
    assert snapshot["segments"]
    assert any(snapshot["device_traces"])


def test_a_batch_that_is_too_large_is_reported(hungry):
    words = ("trial=hungry", *GPU, "data.batch_size=512", "trainer.max_epochs=1")
    output = lab_until_full(hungry, "train", *words, rc=1)
    assert NO_MEMORY in output
    assert last(hungry)["status"] == "failed"
    output = lab_until_full(hungry, "bench", *words, "--steps=2", rc=1)
    assert "out of memory with 512 samples in a batch. Lower data.batch_size" in output


@pytest.mark.timeout(1200)
def test_the_largest_batch_is_searched_down_from_the_first_that_does_not_fit(hungry):
    words = ("trial=hungry", *GPU, "--sweep=batch=64..256", "--steps=2", "--json")
    result = json_line(lab_until_full(hungry, "bench", *words))
    assert 64 <= result["largest"] < result["refused"] <= 128
    assert result["refused"] - result["largest"] <= max(8, result["largest"] // 8)
