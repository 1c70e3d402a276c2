"""Runs on a GPU: stopped and resumed bit for bit, recorded with their GPU and its hours."""

import re
import signal
import subprocess
import sys

import torch
from gpu_runs import (
    TRIAL,
    checkpoint,
    device_name,
    first_attempt,
    lab,
    losses,
    python_path,
    train,
)
from labrig.machine.gpu import nvidia_driver
from projects import call, environment_of
from rehearsal import only_a_gpu_shows
from requirements import gpu
from trainings import last

pytestmark = gpu
DETERMINISTIC = ("record.deterministic=true", "trainer.max_epochs=6", "log.every_n_steps=5")


def stopped_after_its_first_epoch(home):
    """A training that gets SIGTERM in its second epoch, and its run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "labrig", "train", *TRIAL, *DETERMINISTIC],
        cwd=home,
        env=environment_of(home, PYTHONPATH=python_path(home), PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        for line in process.stdout:
            if line.startswith("epoch 1/"):
                process.send_signal(signal.SIGTERM)
    return last(home)


def test_a_stopped_run_is_resumed_bit_for_bit(home):
    whole = train(home, *DETERMINISTIC)
    stopped = stopped_after_its_first_epoch(home)
    assert stopped["status"] == "interrupted"
    lab(home, "resume", stopped["run_id"])
    assert losses(stopped) == losses(whole)
    resumed_weights = checkpoint(stopped)["state_dict"]
    for name, tensor in checkpoint(whole)["state_dict"].items():
        assert torch.equal(resumed_weights[name], tensor), name


def test_the_record_names_gpu_driver_and_versions(home):
    start = first_attempt(train(home, "trainer.max_epochs=1"))
    assert start["device"] == device_name()
    assert start["torch"] == torch.__version__
    assert start["cuda"] == torch.version.cuda
    assert start["driver"] == nvidia_driver()
    gpus, cudnn = start["gpus"], start["cudnn"]
    only_a_gpu_shows("its model, UUID and cuDNN")
    properties = torch.cuda.get_device_properties(0)
    assert gpus[0] == {"model": properties.name, "uuid": f"GPU-{properties.uuid}"}
    assert cudnn == torch.backends.cudnn.version()


def test_hours_are_in_the_cost(home):
    output = lab(home, "train", *TRIAL, "trainer.max_epochs=1")
    hours, gpu_hours = re.search(r"cost: (\S+) h, (\S+) GPU-hours, ", output).groups()
    title, *lines = call(home, "lab", "runs", "cost").splitlines()
    of_all = dict(zip(title.split(), lines[-1].split()[1:], strict=True))
    only_a_gpu_shows("GPU-hours")
    assert gpu_hours == hours
    assert float(of_all["GPU-hours"]) <= float(of_all["hours"])


def test_a_gpu_is_the_default_device(home):
    lab(home, "train", "trial=baseline", "trainer.threads=1", "trainer.max_epochs=1")
    accelerator = first_attempt(last(home))["accelerator"]
    only_a_gpu_shows("that a GPU is preferred")
    assert accelerator == "gpu"
