"""What the checks on a GPU share: trainings as commands and in this process, and the figures to keep."""

import json
import statistics
from pathlib import Path

import torch
from in_process import learn
from projects import ROOT, call
from rehearsal import DEVICE, REHEARSED
from stand_in_gpus import STAND_INS
from trainings import last, rows

GPU = (f"trainer={'cpu' if REHEARSED else 'gpu'}", f"trainer.threads={1 if REHEARSED else 2}")
TRIAL = ("trial=baseline", *GPU)
# float32 as exact as the device has it, so that two ways to compute can be compared
EXACT = ("trainer.precision=32-true", "trainer.matmul_precision=highest")
FIGURES = ROOT / "build/gpu-figures.txt"  # make test-gpu prints it at its end


def device_name():
    """As the record names the device."""
    return "cpu" if REHEARSED else torch.cuda.get_device_name()


def wait_for_device():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def keep_figure(name, value):
    """Adds a line to the figures of this GPU, for the documentation."""
    if REHEARSED:
        return
    FIGURES.parent.mkdir(exist_ok=True)
    with open(FIGURES, "a", encoding="utf-8") as file:
        file.write(f"{torch.cuda.get_device_name()}: {name}: {value}\n")


def python_path(home):
    """The project, the modules of the tests and, in a rehearsal, the stand-in for NVML."""
    folders = [home / "src", ROOT / "tests/helpers", ROOT / "tests/gpu"]
    if REHEARSED:
        folders.append(STAND_INS)
    return ":".join(map(str, folders))


def lab(home, *words, rc=0, timeout_s=600, **variables):
    """A command as a user starts it: in a process of its own, except in a rehearsal."""
    variables = {"PYTHONPATH": python_path(home)} | variables
    return call(home, "lab", *words, rc=rc, timeout_s=timeout_s, cold=not REHEARSED, **variables)


def train(home, *settings, trial=TRIAL, **variables):
    """The record of a run of `lab train` on the GPU."""
    lab(home, "train", *trial, *settings, **variables)
    return last(home)


def first_attempt(record):
    return json.loads(Path(record["run_dir"], "attempts/1/start.json").read_text())


def checkpoint(record):
    """The content of last.ckpt, on the CPU."""
    path = Path(record["run_dir"], "checkpoints/last.ckpt")
    return torch.load(path, map_location="cpu", weights_only=True)


def samples_per_s(record):
    """The median over the logging intervals, without the first."""
    lines = Path(record["run_dir"], "speed.jsonl").read_text().splitlines()[1:]
    return statistics.median(json.loads(line)["speed/samples_per_s"] for line in lines)


def losses(record):
    return [row["train/loss"] for row in rows(record) if "train/loss" in row]


def learn_on_gpu(home, *settings):
    """A training of one epoch in this process."""
    return learn(home, *GPU, *settings)
