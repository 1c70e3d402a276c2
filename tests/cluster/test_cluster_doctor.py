# ruff: noqa: F811 (fixtures are imported by name)
"""What is wrong with a machine or a node, and what a cluster says of itself; other tools' answers are recorded."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from labrig.cluster.doctor import node_check
from labrig.cluster.doctor.checks import speed_findings
from labrig.cluster.doctor.node_check import (
    DeviceSpeed,
    NodeReport,
    bad_nodes,
    device_speed,
    format_reports,
    multiply_check,
)
from labrig.cluster.job.gpu_guard import stop_idle_job, visible_gpus
from labrig.machine.gpu import Gpu
from projects import HELPERS, call, copy_library
from recorded_answers import lab  # noqa: F401

STAND_INS = HELPERS / "stand_ins"
SINFO = """\
prepost|up|20:00:00|(null)|48
gpu_p13*|up|4-04:00:00|gpu:v100:4(S:0-1)|40
gpu_p13*|up|4-04:00:00|gpu:v100:4|40+
short|up|30:00|gpu:a100:8|64
old|down|1-00:00:00|gpu:k80:2|24
unlimited|up|infinite|(null)|48
"""
CONFIG = """\
Configuration data as of 2026-11-20T10:00:00
AccountingStorageEnforce = associations,limits,qos
PreemptMode             = REQUEUE
SelectType              = select/cons_tres
SLURM_VERSION           = 23.11.4
"""


def advice_of(output):
    """Every finding of a level other than ok -> its advice; fails where that is missing."""
    blocks = re.findall(r"^  (ok|note|wrong) +((?:.*\n)(?: {9}.*\n)*)", output, re.M)
    assert blocks
    advice_of_finding = {}
    for level, text in blocks:
        finding, _, advice = " ".join(text.split()).partition("-> ")
        assert (level == "ok") != bool(advice), text
        if level != "ok":
            advice_of_finding[finding.strip()] = advice
    return advice_of_finding


@pytest.mark.release
@pytest.mark.slow
def test_the_doctor_examines_this_machine(lab):
    done = subprocess.run(
        [lab.tools / "lab", "doctor"], cwd=lab.folder, capture_output=True, text=True, timeout=300
    )
    output = done.stdout
    assert done.returncode == int("  wrong" in output)
    advice_of(output)
    assert max(map(len, output.splitlines())) <= 80
    titles = re.findall(r"^(\S.*)$", output, re.M)
    assert titles == [
        "machine",
        "numerics",
        "gpu health",
        "gpu speed",
        "disks",
        "python",
        "repository",
        "tracking",
        "scheduler",
        "template files",
    ]
    python = ".".join(map(str, sys.version_info[:3]))
    versions = {"torch": version("torch"), "NumPy": version("numpy"), "Python": python}
    for name, number in versions.items():
        assert re.search(rf"{name}\b.*{re.escape(number)}", output), name
    assert re.search(r"torch \S+ \((no )?MKL\),\s+NumPy \S+ \([^)]*(blas|mkl|accelerate)", output)
    for fact in (
        "cores",
        "MKL",
        "HDF5",
        "on ",
        "files free",
        "Python",
        "git:",
        "W&B:",
    ):
        assert fact in output


@pytest.mark.release
@pytest.mark.slow
def test_the_doctor_finds_what_is_broken(lab):
    gpus = [
        {"total_MB": 80000, "used_MB": 10, "celsius": 88, "uncorrected_errors": 3, "topology": 50},
        {"total_MB": 80000, "used_MB": 10, "throttle_reasons": 8},
    ]
    lab.fake("sbatch")
    lab.fake("scontrol", "Slurmctld(primary) at c0 is DOWN", rc=1)
    lab.fake(
        "quota", "Disk quotas for user ann:\n  Filesystem space quota\n  /dev/sda 11G* 10G 10G\n"
    )
    (lab.folder / ".git").rename(lab.folder / ".gone")
    settings = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "4096",
        "SBATCH_PARTITION": "x",
        "PYTHONUSERBASE": "",
        "STAND_IN_GPUS": json.dumps(gpus),
        "PYTHONPATH": f"{STAND_INS}:{lab.folder}/src",
    }
    one_core = ["taskset", "-c", min(os.sched_getaffinity(0)), "lab", "doctor"]
    output = call(lab.folder, *one_core, rc=1, OMP_NUM_THREADS="2", **settings)
    advice_of_finding = advice_of(output)
    for finding, advice in {
        "4096 CPUs per task": "srun --cpus-per-task",
        "threads on 1 cores": "OMP_NUM_THREADS=",
        "3 uncorrected memory errors": "help desk",
        "slows itself down": "help desk",
        "through the CPUs": "measure",
        "quota of /dev/sda: 11G of 10G": "lab runs prune",
        "cannot record their code": "git init",
        "Slurm does not answer": "help desk",
        "SBATCH_PARTITION would change": "unset",
    }.items():
        matches = [text for text in advice_of_finding if finding in text]
        assert len(matches) == 1, (finding, advice_of_finding)
        assert advice in advice_of_finding[matches[0]]
    assert "in job 7" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.release
@pytest.mark.slow
def test_a_profile_is_drafted_from_what_slurm_says(lab):
    lab.fake("sbatch")
    lab.fake("sinfo", SINFO)
    lab.fake("scontrol", CONFIG)
    lab.fake("sacctmgr", "abc@v100|qos_gpu-t3,qos_gpu-t4\n")
    nobody = "http://127.0.0.1:9"
    output = lab(
        *("site", "init", "ours"), SCRATCH="/scratch/ann", WORK="/home/ann", https_proxy=nobody
    )
    file = lab.folder / "src/myproj/conf/site/ours.yaml"
    assert file.read_text() in output
    draft = yaml.safe_load(file.read_text())
    assert {queue["name"]: (queue.get("max_h"), queue.get("max_gpus")) for queue in draft["queues"]} == {
        "gpu_p13": (100, None), "prepost": (20, 0), "short": (0.5, None), "unlimited": (None, 0),
    }  # fmt: skip
    assert draft["queues"][0]["name"] == "gpu_p13"  # the default partition
    assert draft["gpu"] == {"name": "a100/v100", "per_node": 8}
    assert draft["paths"]["scratch"] == "$SCRATCH"
    assert draft["confidence"]["queues"][0] == "V"
    assert draft["internet"] == {"jobs": False, "login": False}
    assert draft["confidence"]["internet"][0] == "?"
    assert draft["confidence"]["internet.login"][0] == "V"
    for note in ("SLURM_VERSION           = 23.11.4", "abc@v100|qos_gpu-t3", "disk WORK=/home/ann"):
        assert note in file.read_text()
    script = lab(
        "submit", "--dry-run", "trial=baseline", "site=ours", "job.gpus=4", SCRATCH="/scratch/ann"
    )
    assert "#SBATCH --partition=gpu_p13\n" in script
    assert "#SBATCH --cpus-per-task=8\n" in script
    assert re.search(r"\n# ours: 1 x \[1 node x 4 GPUs for \S+\], [\d.]+ GPU-hours\n", script)
    assert "#SBATCH --partition=prepost\n" in lab("submit", "--dry-run", "trial=baseline", "site=ours", "job.gpus=0",
                                                  "job.queue=prepost", SCRATCH="/scratch/ann")  # fmt: skip
    assert "exists" in lab("site", "init", "ours", rc=4)


@pytest.mark.slow
def test_sites_are_listed_and_a_mistyped_one_is_named(lab):
    assert re.search(
        r"^lanta +not verified +labrig/conf/site/lanta.yaml$", lab("site", "show"), re.M
    )
    assert "verified: null" in lab("site", "show", "lanta")
    assert "did you mean: lanta" in lab("site", "show", "lantta", rc=2)


def test_a_draft_needs_a_cluster(lab):
    if not any(Path(folder, "sbatch").exists() for folder in ("/usr/bin", "/usr/local/bin")):
        assert "no scheduler is installed" in lab("site", "init", rc=2)
    lab.fake("sbatch")
    lab.fake("sinfo", "sinfo: fatal: Could not establish a configuration source", rc=1)
    assert "Could not establish" in lab("site", "init", rc=1)
    assert not (lab.folder / "src/myproj/conf/site").exists()


def test_the_guard_asks_a_process_with_idle_gpus_to_stop_and_leaves_a_busy_one(capfd, tmp_path):
    def watch(percent):
        process, now = subprocess.Popen(["sleep", "600"]), [0.0]

        def sleep(seconds):
            now[0] += seconds
            if now[0] > 5000:
                process.kill()
                process.wait()

        def ask_gpus():
            ours = [Gpu(1, "GPU-1", "x", 1000, 0, utilization_percent=n) for n in percent(now[0])]
            return [Gpu(0, "GPU-0", "x", 1000, 0, utilization_percent=99), *ours]

        stopped = stop_idle_job(
            process.pid,
            "1",
            30.0,
            tmp_path,
            ask_gpus=ask_gpus,
            clock=lambda: now[0],
            sleep=sleep,
        )
        return stopped, process.wait(timeout=30)

    assert watch(lambda now_s: [0]) == (True, -12)  # SIGUSR2
    assert "did nothing for 30 minutes" in capfd.readouterr().out
    assert "did nothing for 30 minutes" in (tmp_path / "cancelled").read_text()
    (tmp_path / "cancelled").unlink()
    assert watch(lambda now_s: [50 if now_s % 1200 < 60 else 0]) == (False, -9)
    assert watch(lambda now_s: []) == (False, -9)  # no answer is not idleness
    assert watch(lambda now_s: [None]) == (False, -9)
    assert not (tmp_path / "cancelled").exists()


def test_the_guard_finds_the_gpus_of_its_job():
    three = [Gpu(n, f"GPU-{n}a{n}", "x", 1000, 0) for n in range(3)]

    def seen(visible):
        return [gpu.index for gpu in visible_gpus(visible, three)]

    assert seen(None) == [0, 1, 2]
    assert seen("") == []
    assert seen("0,2") == [0, 2]
    assert seen("GPU-1a1,GPU-2a") == [1, 2]
    assert seen("MIG-1a1") == []  # a part of a GPU, whose use nobody reports


def report(rank, **values):
    """Of a rank that came to the end, and found nothing wrong."""
    measured = {
        "host": f"n{rank}",
        "device": "x",
        "uuid": str(rank),
        "n_products": 9,
        "n_wrong": 0,
        "gflops": 10.0,
        "exchange_GB_s": 1.0,
        "done": True,
    }
    return NodeReport(rank=rank, **measured | values)


def test_a_node_that_computes_otherwise_is_named():
    good = [report(rank) for rank in range(6)]
    assert bad_nodes(good) == {}
    assert max(map(len, format_reports(good).splitlines())) <= 80
    reports = [
        report(0),
        report(1, n_wrong=1),
        report(2, gflops=5.0),
        report(3),
        report(4, uuid="3"),
        report(5),
    ]
    bad = bad_nodes(reports)
    assert list(bad) == ["n1", "n2", "n3", "n4"]
    assert bad["n1"] == ["rank 1: 1 of 9 products were wrong"]
    assert bad["n2"] == ["rank 2: 5 GFLOP/s, but the median is 10"]
    assert bad["n4"] == ["rank 4: another rank uses the same GPU"]


def test_only_the_rank_that_hangs_is_named():
    waits = report(0, exchange_GB_s=None, done=False)
    reports = [waits, NodeReport(rank=1, host="n1", cores=4), NodeReport(rank=2, host="?")]
    assert bad_nodes(reports) == {
        "n1": ["rank 1: did not finish its products"],
        "?": ["rank 2: did not finish its products"],
    }
    assert bad_nodes([waits]) == {"n0": ["rank 0: did not come back from the all-reduce"]}


def test_a_product_with_one_wrong_bit_is_counted(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(node_check, "BURN_S", 0.2)
    right = multiply_check(torch.device("cpu"))
    assert right.n_wrong == 0
    assert right.n_products > 0
    multiply = torch.Tensor.__matmul__

    def flip(left, other):
        product = multiply(left, other)
        if product.dtype == torch.float32:
            product[3, 5] += 1
        return product

    monkeypatch.setattr(torch.Tensor, "__matmul__", flip)
    wrong = multiply_check(torch.device("cpu"))
    assert wrong.n_wrong == wrong.n_products > 0


def test_the_speed_of_a_device_is_what_the_clock_says(monkeypatch):
    """A clock that ticks a second at each look: five products of 512, five copies of 64 MB."""
    torch = pytest.importorskip("torch")
    ticks = iter(range(100))
    monkeypatch.setattr(node_check.time, "perf_counter", lambda: float(next(ticks)))
    speed = device_speed(torch.device("cpu"))
    assert speed.tflops == pytest.approx(5 * 2 * 512**3 / 1e12)
    assert speed.to_device_GB_s == pytest.approx(5 * 0.064)
    assert speed.from_device_GB_s == pytest.approx(5 * 0.064)


def test_a_slow_gpu_is_told_from_its_data_sheet():
    slow, fast = DeviceSpeed(100, 20, 21), DeviceSpeed(250, 20, 21)
    found = [finding.text for finding in speed_findings("NVIDIA A100-SXM4-40GB", slow)]
    assert found[0].startswith("fp16 products: 100 of 312 TFLOP/s; copies: 20.0 GB/s to the GPU")
    assert found[1:] == ["products reach 32% of the data sheet"]
    assert len(list(speed_findings("NVIDIA A100-SXM4-40GB", fast))) == 1
    (unknown,) = speed_findings("Another GPU", slow)
    assert unknown.text.startswith("fp16 products: 100 TFLOP/s")


@pytest.mark.release
def test_every_rank_of_a_short_job_is_examined(lab, tmp_path, monkeypatch):
    program = copy_library(tmp_path / "library") / "labrig/cluster/doctor/node_check.py"
    assert "BURN_S = 10.0" in program.read_text()
    program.write_text(program.read_text().replace("BURN_S = 10.0", "BURN_S = 0.5"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    settings = ["site=workstation", "job.gpus=0", "job.tasks_per_node=2"]
    output = lab("doctor", "--nodes", *settings, timeout_s=600, NCCL_DEBUG="WARN")
    lines = output.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("rank  host"))
    rows = [line.split() for line in lines[head + 1 : head + 3]]
    assert [row[0] for row in rows] == ["0", "1"]
    assert all(float(row[-1]) > 0 for row in rows)  # the all-reduce
    assert re.search(r"note +NCCL_DEBUG=WARN on \S+ is of your shell", output)
    assert "unset NCCL_DEBUG, or write" in output
    assert output.endswith("all nodes compute alike\n")
    assert max(map(len, lines[head:])) <= 80
