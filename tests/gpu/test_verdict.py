"""The verdict of lab bench on a model that waits for data, one that waits for Python, and one that computes."""

import json

import pytest
from conftest import call
from gpu_runs import GPU
from requirements import gpu
from trainings import add_trial

pytestmark = gpu
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

    def __init__(self, width=8192):
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
    for name, target in {"small": "Small", "large": "Large"}.items():
        add_trial(home, name, model_py=MODELS, config_yaml=f"model:\n  _target_: .model.{target}\n")
    (home / "src/myproj/late_on_gpu.py").write_text(LATE)
    (home / "src/myproj/conf/data/late_on_gpu.yaml").write_text(
        "_target_: ${package}.late_on_gpu.Late\n"
        "path: digits.h5\nsearch: ${paths.data}\nbatch_size: 64\n"
    )
    return home


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        (("trial=small", "data=late_on_gpu"), "data-bound"),
        (("trial=small",), "launch-bound"),
        (("trial=large",), "compute-bound"),
    ],
)
def test_the_verdict(three, settings, verdict):
    output = call(three, "lab", "bench", *settings, *GPU, "--steps=20", "--json", cold=True)
    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    assert json.loads(line)["verdict"][0]["name"] == verdict
