"""What the checks on a GPU share: trainings as commands and in this process, and the figures to keep."""

import json
import statistics
from pathlib import Path

import torch
from conftest import ROOT, call
from in_process import learn
from trainings import last, rows

GPU = ("trainer=gpu", "trainer.threads=2")
TRIAL = ("trial=baseline", *GPU)
# float32 as exact as the device has it, so that two ways to compute can be compared
EXACT = ("trainer.precision=32-true", "trainer.matmul_precision=highest")
FIGURES = ROOT / "build/gpu-figures.txt"  # make test-gpu prints it at its end


def keep_figure(name, value):
    """Adds a line to the figures of this GPU, for the documentation."""
    FIGURES.parent.mkdir(exist_ok=True)
    with open(FIGURES, "a", encoding="utf-8") as file:
        file.write(f"{torch.cuda.get_device_name()}: {name}: {value}\n")


def train(home, *settings, rc=0, **variables):
    """`lab train` on the GPU, as a user starts it, and the record of its run."""
    call(home, "lab", "train", *TRIAL, *settings, rc=rc, cold=True, **variables)
    return last(home)


def first_attempt(record):
    return json.loads(Path(record["run_dir"], "attempts/1/start.json").read_text())


def weights(record):
    """The weights of last.ckpt, on the CPU."""
    path = Path(record["run_dir"], "checkpoints/last.ckpt")
    return torch.load(path, map_location="cpu", weights_only=True)["state_dict"]


def samples_per_s(record):
    """The median over the logging intervals, without the first."""
    lines = Path(record["run_dir"], "speed.jsonl").read_text().splitlines()[1:]
    return statistics.median(json.loads(line)["speed/samples_per_s"] for line in lines)


def losses(record):
    return [row["train/loss"] for row in rows(record) if "train/loss" in row]


def learn_on_gpu(home, *settings):
    """A training of one epoch in this process."""
    return learn(home, "trainer=gpu", *settings)
