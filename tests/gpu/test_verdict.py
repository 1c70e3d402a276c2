"""The verdict of lab bench on a model that waits for data, one that waits for Python, and one that computes."""

import pytest
from commands import json_line
from gpu_runs import GPU, lab
from rehearsal import REHEARSED, only_a_gpu_shows
from requirements import gpu
from trainings import add_trial

pytestmark = gpu
WIDTH = 64 if REHEARSED else 8192  # of the large products
MODELS = """
import torch
from torch import nn


class Small(nn.Module):
    '''So many small kernels that Python cannot start them as fast as the GPU ends them.'''

    def __init__(self, n_layers=200):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(64, 64) for _ in range(n_layers)])
        self.head = nn.Linear(64, 10)

    def forward(self, image_B1HW):
        return self.head(self.layers(image_B1HW.flatten(1)))


class Large(nn.Module):
    '''A few products that keep any GPU busy.'''

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), *[nn.Linear(width, width) for _ in range(6)])
        self.head = nn.Linear(width, 10)

    def forward(self, image_B1HW):
        return self.head(self.layers(image_B1HW.flatten(1).repeat(64, 1)))[: len(image_B1HW)]
"""
LATE = """
import time

from .data import Digits


class Late(Digits):
    def transform(self, batch, rng):
        time.sleep(0.2)
        return batch
"""


@pytest.fixture(scope="module")
def three(home):
    """The shared project with the models and the slow data."""
    small = "model:\n  _target_: .model.Small\n"
    large = f"model:\n  _target_: .model.Large\n  width: {WIDTH}\n"
    add_trial(home, "small", model_py=MODELS, config_yaml=small)
    add_trial(home, "large", model_py=MODELS, config_yaml=large)
    (home / "src/myproj/late_on_gpu.py").write_text(LATE)
    (home / "src/myproj/conf/data/late_on_gpu.yaml").write_text(
        "_target_: ${package}.late_on_gpu.Late\n"
        "path: digits.h5\nsearch: ${paths.data}\nbatch_size: 64\n"
    )
    return home


def bench(home, *settings):
    """What `lab bench` measured, and the name of its verdict."""
    output = lab(home, "bench", *settings, *GPU, "--steps=20", "--json")
    result = json_line(output)
    return result, result["verdict"][0]["name"]


def test_a_model_that_waits_for_data_is_data_bound(three):
    _, verdict = bench(three, "trial=small", "data=late_on_gpu")
    assert verdict == "data-bound"


def test_many_small_kernels_are_launch_bound(three):
    result, verdict = bench(three, "trial=small")
    assert result["launch_s"] > 0
    only_a_gpu_shows("the time that Python takes to start kernels")
    assert verdict == "launch-bound"


def test_large_products_are_compute_bound(three):
    result, verdict = bench(three, "trial=large")
    memory = result["memory_bytes"]
    power_W = result["power_w"]
    only_a_gpu_shows("products that fill it, and what they take of memory and power")
    assert verdict == "compute-bound"
    assert memory["weights"] + memory["optimizer"] < memory["peak"] < memory["device"]
    assert power_W is None or power_W > 30
