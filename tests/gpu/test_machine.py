"""What `lab` says of a machine with a GPU: doctor, its job on the nodes, top, and setup with a build for CUDA."""

import os
import re
import subprocess
import sys

import pytest
import torch
from gpu_runs import lab, python_path
from labrig import env
from labrig.machine.gpu import gpus, processes_on
from labrig.training.parts.settings import no_gpu_message
from projects import call, environment_of
from rehearsal import DEVICE, ONE_GPU, REHEARSED, only_a_gpu_shows, show
from requirements import gpu

RUN_ID = "20260101-000000-aaaaaa"
HOLD = """
import sys, time, torch
held = torch.ones(100_000_000, device=sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


def test_torch_sees_the_gpus_of_the_driver():
    """Else every other check would be skipped on a machine that has a GPU."""
    if not gpus():
        pytest.skip("no GPU: no NVIDIA driver answers")
    only_a_gpu_shows("whether torch is built for its driver")
    advice = "To make this environment again: rm -r .venv; TORCH=cu126 make test-gpu"
    assert torch.cuda.is_available(), f"{no_gpu_message('the driver has a GPU')}\n{advice}"


@gpu
def test_the_doctor_lists_the_gpus(home):
    command = [sys.executable, "-m", "labrig", "doctor"]
    environment = environment_of(home, PYTHONPATH=python_path(home))
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=300
    )
    lines = done.stdout.splitlines()
    for each in gpus():
        assert any(f"GPU {each.index}: {each.name}" in line for line in lines), done.stdout
    only_a_gpu_shows("its tensor cores")
    assert "tensor cores: " in done.stdout
    said = " ".join(done.stdout.split())
    assert re.search(r"fp16 products: \d+ of \d+ TFLOP/s; copies: [\d.]+ GB/s to the GPU", said)


@gpu
def test_the_doctor_examines_the_node(home):
    output = lab(home, "doctor", "--nodes", "job.gpus=1")
    assert "all nodes compute alike" in output.splitlines()
    only_a_gpu_shows("the name of the device")
    assert torch.cuda.get_device_name().removeprefix("NVIDIA ")[:18] in output


@pytest.fixture
def holder(home):
    """A process of a run that holds memory on the GPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, DEVICE],
        env=environment_of(home, **{env.RUN_DIR: f"/runs/baseline/{RUN_ID}"}),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@gpu
def test_top_shows_who_uses_the_gpu(home, holder):
    if REHEARSED:
        show(ONE_GPU | {"processes": [[holder.pid, 400]]})
    if not any(holder.pid in processes_on(each) for each in gpus()):
        pytest.skip("the driver names no processes of this container")
    output = call(home, "lab", "top", PYTHONPATH=python_path(home))
    assert RUN_ID in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.skipif("TORCH" not in os.environ, reason="TORCH is not set: TORCH=cu126 make test-gpu")
@gpu
@pytest.mark.timeout(2400)
def test_setup_installs_a_build_for_cuda(fresh):
    """Downloads some gigabytes."""
    call(fresh, "make", "setup", f"TORCH={os.environ['TORCH']}", timeout_s=1800)
    program = "import torch; print(torch.version.cuda, torch.cuda.is_available())"
    output = call(fresh, ".venv/bin/python", "-c", program)
    assert output.split()[-1] == "True"
    build = os.environ["TORCH"].removeprefix("cu")
    assert output.split()[-2].replace(".", "") == build
