"""Runs on a GPU: stopped and resumed bit for bit, recorded with their GPU, profiled; and the machine's doctor."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import call, environment_of, equip
from gpu_runs import GPU, TRIAL, first_attempt, losses, train, weights
from myproj.lab.machine.gpu import gpus, nvidia_driver
from requirements import gpu, profiler
from trainings import last

pytestmark = gpu
DETERMINISTIC = ("record.deterministic=true", "trainer.max_epochs=3", "log.every_n_steps=5")


def stopped_after_its_first_epoch(home):
    """A training that gets SIGTERM in its second epoch, and its run."""
    process = subprocess.Popen(
        [sys.executable, "-m", "myproj.lab", "train", *TRIAL, *DETERMINISTIC],
        cwd=home,
        env=environment_of(home, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("epoch 1/"):
            process.send_signal(signal.SIGTERM)
    process.wait(timeout=120)
    return last(home)


def test_a_stopped_run_is_resumed_bit_for_bit(home):
    whole = train(home, *DETERMINISTIC)
    stopped = stopped_after_its_first_epoch(home)
    assert stopped["status"] == "interrupted"
    call(home, "lab", "resume", stopped["run_id"], cold=True)
    assert losses(stopped) == losses(whole)
    resumed_weights, whole_weights = weights(stopped), weights(whole)
    for name, tensor in whole_weights.items():
        assert torch.equal(resumed_weights[name], tensor), name


def test_the_record_names_gpu_driver_and_versions(home):
    start = first_attempt(train(home, "trainer.max_epochs=1"))
    assert start["gpus"][0]["name"] == torch.cuda.get_device_name()
    assert start["cuda"] == torch.version.cuda
    assert start["cudnn"] is not None
    assert start["driver"] == nvidia_driver()


def test_hours_are_in_the_cost(home):
    train(home, "trainer.max_epochs=1")
    (row, *_) = json.loads(call(home, "lab", "runs", "cost", "--json"))
    assert row["gpu_hours"] > 0


@profiler
def test_the_trace_holds_kernels(home):
    settings = ("profile.wait_steps=2", "profile.warmup_steps=2", "profile.active_steps=3")
    record = train(home, "trainer.max_epochs=1", "profile=torch", *settings)
    (file,) = Path(record["run_dir"]).glob("profile/torch-rank0.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert any(event.get("cat") == "kernel" for event in events)


@pytest.mark.parametrize("kind", ["simple", "line", "cprofile"])
def test_profilers_of_python_work_next_to_a_gpu(home, kind):
    record = train(home, "trainer.max_epochs=1", f"profile={kind}")
    (file,) = Path(record["run_dir"]).glob(f"profile/{kind}-rank0.*")
    assert file.stat().st_size > 0


def test_the_doctor_lists_the_gpus(home):
    done = subprocess.run(
        [sys.executable, "-m", "myproj.lab", "doctor"],
        cwd=home,
        env=environment_of(home),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert gpus()[0].name.removeprefix("NVIDIA ") in done.stdout


def test_the_doctor_examines_the_node(home):
    output = call(home, "lab", "doctor", "--nodes", "job.gpus=1", cold=True, timeout_s=600)
    assert output.endswith("all nodes compute alike\n")
    assert gpus()[0].name.removeprefix("NVIDIA ") in output


@pytest.mark.skipif("TORCH" not in os.environ, reason="TORCH is not set: TORCH=cu126 make test-gpu")
def test_setup_installs_a_build_for_cuda(render, tmp_path):
    """Downloads some gigabytes."""
    folder = equip(render(tmp_path / "fresh"))
    (folder / ".venv").unlink()
    call(folder, "make", "setup", f"TORCH={os.environ['TORCH']}", timeout_s=1800)
    program = "import torch; print(torch.version.cuda, torch.cuda.is_available())"
    output = call(folder, ".venv/bin/python", "-c", program)
    assert output.split()[-1] == "True"
    build = os.environ["TORCH"].removeprefix("cu")
    assert output.split()[-2].replace(".", "") == build


def test_a_gpu_is_the_default_device(home):
    call(home, "lab", "train", "trial=baseline", "trainer.max_epochs=1", cold=True)
    assert first_attempt(last(home))["accelerator"] == GPU[0].partition("=")[2]
