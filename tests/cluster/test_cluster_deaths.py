# ruff: noqa: F811 (fixtures are imported by name)
"""Jobs on a real Slurm that cannot write how they ended: `lab` says it in words. Needs root; `make test-cluster`."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from labrig.record.files.process import pid_started
from slurm_jobs import (  # noqa: F401
    FOLDER,
    STUBBORN,
    cluster,
    ended,
    kill_node,
    lab,
    needs_root,
    notice_dead,
    slurm,
    start_node,
    submit,
    wait_until,
)
from stand_in_gpus import STAND_INS

pytestmark = needs_root


@pytest.fixture
def second_node():
    """Brings the second node back, whatever a test did to it."""
    yield
    Path(FOLDER / "prolog-fails").unlink(missing_ok=True)
    if not pid_started(int((FOLDER / "pid/node-c2").read_text())):
        start_node("c2")

    def is_back():
        subprocess.run(
            ["scontrol", "update", "NodeName=c2", "State=RESUME"], capture_output=True, timeout=60
        )
        return slurm("sinfo", "-h", "-n", "c2", "-o", "%T").strip() in ("idle", "mixed")

    wait_until(is_back, "the second node back")


def has_begun(sent):
    wait_until((Path(sent["run_dir"]) / "attempts/1/start.json").exists, "the start")


def words_of(lab, sent):
    """How the job ended, as the queue and the page of its run say; both say the same."""
    page = lab("runs", "show", sent["run_id"])
    words = re.search(rf"^  job +{sent['job_id']} on slurm: (.*)$", page, re.MULTILINE)[1]
    queue = lab("queue")
    assert re.search(rf"^{sent['run_id']} .*{sent['job_id']}\n    {re.escape(words)}$", queue, re.M)
    assert max(map(len, queue.splitlines())) <= 80
    return words


def over(lab, sent):
    wait_until(lambda: sent["run_id"] not in lab("queue").partition("stopped")[0], "the end")


def test_a_killed_process_is_reported_with_what_srun_printed(lab):
    sent = submit(lab, "job.gpus=0", *STUBBORN)
    has_begun(sent)
    slurm("scancel", "--signal=KILL", f"{sent['job_id']}.0")  # as the kernel, short of memory
    over(lab, sent)
    assert words_of(lab, sent).startswith("killed (SIGKILL), usually for lack of memory")
    for words in ([], ["--rank", "0"]):
        assert re.search(r"srun: error: c\d: task 0: Killed", lab("logs", sent["run_id"], *words))


def test_a_dead_node_is_named(lab, second_node):
    where = 'job.extra=["--nodelist=c2", "--no-requeue"]'
    sent = submit(lab, "job.gpus=0", where, "--", "sleep", "300")
    has_begun(sent)
    kill_node("c2")
    notice_dead("c2")
    over(lab, sent)
    assert words_of(lab, sent) == "its node failed (c2); what was saved can be resumed"


def test_a_failing_prolog_is_reported_while_the_job_is_held(lab, second_node):
    (FOLDER / "prolog-fails").touch()
    sent = submit(lab, "job.gpus=0", 'job.extra=["--nodelist=c2"]', "--", "true")
    wait_until(lambda: "its node could not launch it" in lab("queue"), "the prolog")
    page = lab("runs", "show", sent["run_id"])
    assert re.search(r"^  job +\d+ on slurm: its node could not launch it", page, re.M)
    assert "Error running slurm prolog: 1" in lab("logs", sent["run_id"])
    lab("cancel", sent["run_id"])


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
