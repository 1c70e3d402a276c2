# ruff: noqa: F811 (fixtures are imported by name)
"""What happens inside jobs on a real Slurm: a shell, `lab top`, the guard against idle GPUs. Needs root."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import environment_of
from slurm_jobs import (  # noqa: F401
    WAIT_S,
    cluster,
    ended,
    lab,
    needs_root,
    submit,
    wait_until,
)
from stand_in_gpus import STAND_INS

pytestmark = needs_root


def type_in_shell(lab, line, *words):
    """What a shell on a node prints, and its exit code, after a line was typed in a terminal."""
    command = f"lab shell site=slurm job.time=00:05:00 {' '.join(words)}"
    done = subprocess.run(
        ["script", "-qefc", command, "/dev/null"],
        cwd=lab.folder,
        env=environment_of(lab.folder),
        input=f"{line}\n",
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    return done.stdout, done.returncode


def test_a_shell_opens_on_a_node_with_what_was_asked(lab):
    line = "echo on $(hostname) $SLURM_CPUS_PER_TASK cpus, GPU $CUDA_VISIBLE_DEVICES; exit 7"
    output, code = type_in_shell(lab, line, "job.gpus=1", "job.cpus_per_task=2")
    assert re.search(r"^on c[12] 2 cpus, GPU 0\r?$", output, re.MULTILINE), output
    assert "--gres=gpu:1" in output
    assert code == 7
    inside = "cd $OLDPWD; lab shell site=slurm; echo code $?; exit"
    output, _ = type_in_shell(lab, inside.replace("$OLDPWD", str(lab.folder)), "job.gpus=0")
    assert re.search(r"this shell is inside job \d+ already", output), output
    assert "code 4" in output


@pytest.fixture
def stand_in(lab, monkeypatch):
    """Every node has two GPUs, as NVML says, of which nobody uses the first."""
    file = lab.folder / "src/pynvml.py"
    shutil.copy(STAND_INS / "pynvml.py", file)

    def show(*processes):
        idle = {"total_MB": 80_000, "used_MB": 500, "utilization_percent": 0}
        devices = [idle | {"processes": list(processes)}, idle | {"utilization_percent": 99}]
        monkeypatch.setenv("STAND_IN_GPUS", json.dumps(devices))

    show()
    yield show
    file.unlink()


def test_a_job_with_an_idle_gpu_is_seen_and_stopped(lab, stand_in):
    sent = submit(lab, "job.gpus=1", "job.idle_min=0.5", "--", "sleep", "300")
    start = Path(sent["run_dir"]) / "attempts/1/start.json"
    wait_until(start.exists, "the start")
    stand_in([json.loads(start.read_text())["pid"], 400])  # as NVML on the node says
    top = lab("top", sent["run_id"])
    assert re.search(rf"^  0 +0 % +500 / 80000 +- +root +{sent['run_id']} +0:0", top, re.M), top
    log = ended(sent, "FAILED")  # 143: sleep ends by SIGTERM
    assert "did nothing for 0.5 minutes" in log
    page = lab("runs", "show", sent["run_id"])
    assert re.search(r"^  job +\d+ on slurm: stopped: its GPUs did nothing for 0.5 min", page, re.M)
    assert "stopped: its GPUs did nothing" in lab("queue")
    assert "its job is over" in lab("top", sent["run_id"], rc=2)
