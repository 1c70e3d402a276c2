"""A machine without a scheduler: the same commands, a detached process, a time limit; and the parts that need no job."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, call
from slurm_jobs import SLOW, wait_until

sys.path.insert(0, str(ROOT / "template/src"))
LAB = "{{package_name}}.lab."  # plain Python: it runs as it lies in the template
errors, idle, local, nodes, points, prefetch, project_, scheduler = (
    importlib.import_module(LAB + name)
    for name in (
        "errors",
        "cluster.idle",
        "cluster.local",
        "cluster.nodes",
        "cluster.points",
        "cluster.prefetch",
        "project",
        "cluster.scheduler",
    )
)


@pytest.fixture
def lab(own_project):
    """lab(*words) in a project with data and a training that can be slow."""
    (own_project / "src/myproj/slow.py").write_text(SLOW)

    def lab(*words, **options):
        return call(own_project, "lab", *words, **options)

    lab("data", "pack", "digits")
    lab.folder = own_project
    yield lab
    for record in own_project.glob("runs/*/*/run.json"):  # nothing is left running, whatever the test found
        job = json.loads(record.read_text()).get("job") or {}
        if "id" in job and job["id"] in local.Local().jobs():
            os.killpg(int(job["id"].partition("-")[0]), 9)


def submit(lab, *words):
    place = words.index("--") if "--" in words else len(words)
    start = ["submit", "trial=baseline", "site=workstation", "job.gpus=0", "trainer=cpu", "trainer.max_epochs=2"]
    said = lab(*start, *words[:place], "--no-batch", "--json", *words[place:])
    return json.loads(next(line for line in said.splitlines() if line.startswith(("{", "["))))


def slow(step_s):
    return ["callbacks.slow._target_=myproj.slow.Slow", f"callbacks.slow.step_s={step_s}", "log.every_n_steps=2"]


def status(sent):
    file = Path(sent["run_dir"]) / "summary.json"
    return json.loads(file.read_text())["status"] if file.exists() else None


def test_a_detached_job_can_be_seen_and_cancelled(lab):
    sent = submit(lab, *slow(0.5))
    assert sent["run_id"] in lab("queue")
    wait_until((Path(sent["run_dir"]) / "metrics.jsonl").exists, "training")
    lab("cancel", sent["run_id"])
    wait_until(lambda: status(sent) == "interrupted", "the end")
    assert (Path(sent["run_dir"]) / "checkpoints/last.ckpt").exists()
    wait_until(lambda: lab("queue").strip() == "no jobs", "an empty queue")
    assert "as submitted" in lab("logs", sent["run_id"])


def test_the_runs_of_an_array_go_one_after_the_other(lab):
    sent = submit(lab, "seed=0,1", "--", "bash", "-c", "date +%s.%N; sleep 1; date +%s.%N")
    wait_until(lambda: all(status(one) == "finished" for one in sent), "both runs")
    times = []
    for one in sent:
        lines = Path(one["log"]).read_text().splitlines()
        times.append(tuple(float(line) for line in lines if line.replace(".", "").isdigit()))
    (start_1, end_1), (start_2, end_2) = times
    assert start_2 >= end_1 or start_1 >= end_2


def test_the_time_limit_ends_a_job(lab):
    sent = submit(lab, "job.time=00:01:00", "--", "sleep", "600")
    started_s = time.monotonic()
    wait_until(lambda: status(sent), "the time limit", 120)
    assert status(sent) != "finished"
    assert time.monotonic() - started_s < 100


def test_the_emptiest_gpus_are_taken_and_a_full_one_refused():
    there = [local.Gpu("0", 100, 1000, 90), local.Gpu("1", 900, 1000, 0), local.Gpu("2", 800, 1000, 0)]
    assert local.emptiest(2, found=lambda: there) == ["1", "2"]
    with pytest.raises(errors.Refused, match="GPU 0 is the emptiest left"):
        local.emptiest(3, found=lambda: there)
    with pytest.raises(errors.Refused, match="850 MB are needed"):
        local.emptiest(2, 850, found=lambda: there)
    with pytest.raises(errors.Refused, match="has 3 NVIDIA GPUs"):
        local.emptiest(4, found=lambda: there)


def test_the_guard_asks_a_process_with_idle_gpus_to_stop_and_leaves_a_busy_one(capfd):
    now = [0.0]

    def watch(utilization):
        process = subprocess.Popen(["sleep", "600"])
        now[0] = 0.0

        def sleep(seconds):
            now[0] += seconds
            if now[0] > 5000:
                process.kill()
                process.wait()

        stopped = idle.guard(
            process.pid,
            {"1"},
            found=lambda: [local.Gpu("0", 0, 1, 99), local.Gpu("1", 0, 1, utilization(now[0]))],
            clock=lambda: now[0],
            sleep=sleep,
        )
        return stopped, process.wait(timeout=30)

    stopped, code = watch(lambda now_s: 0)
    assert stopped
    assert code == -12  # SIGUSR2
    assert "did nothing for 30 minutes" in capfd.readouterr().out
    stopped, code = watch(lambda now_s: 50 if now_s % 1200 < 60 else 0)
    assert not stopped
    assert code == -9


def test_a_node_that_computes_otherwise_is_named():
    good = {"device": "x", "gflops": 10.0, "checksum": 1.5, "repeatable": True}
    rows = [good | {"rank": rank, "host": f"n{rank}"} for rank in range(6)]
    assert nodes.bad_nodes(rows) == {}
    rows[1] |= {"checksum": 1.4}
    rows[2] |= {"gflops": 5.0}
    rows[4] |= {"repeatable": False}
    bad = nodes.bad_nodes(rows)
    assert list(bad) == ["n1", "n2", "n4"]
    assert "another result" in bad["n1"][0]
    assert "5.0 GFLOP/s" in bad["n2"][0]
    assert "different results" in bad["n4"][0]


def test_lists_become_points_in_the_order_typed():
    assert points.expand(["trial=wide", "seed=0,1", "optimizer.lr=1e-3,3e-4"]) == [
        ["trial=wide", "seed=0", "optimizer.lr=0.001"],
        ["trial=wide", "seed=0", "optimizer.lr=0.0003"],
        ["trial=wide", "seed=1", "optimizer.lr=0.001"],
        ["trial=wide", "seed=1", "optimizer.lr=0.0003"],
    ]
    assert points.expand(["model.sizes=[1,2]", "seed=range(0,3)"])[2] == ["model.sizes=[1,2]", "seed=2"]
    with pytest.raises(errors.LabError, match="lab sweep"):
        points.expand(["optimizer.lr=interval(0,1)"])


def test_a_job_inherits_nothing_of_the_job_it_is_sent_from(monkeypatch):
    inherited = ("SLURM_CPU_BIND", "SLURM_NTASKS", "SBATCH_PARTITION", "PMI_RANK", "LAB_RUN_DIR", "MASTER_PORT", "RANK")
    kept = ("SLURM_CONF", "LAB_SITE_PATH", "SGE_ROOT", "HOME", "PATH")
    for name in (*inherited, *kept):
        monkeypatch.setenv(name, "x")
    clean = scheduler.clean_environment()
    assert not set(inherited) & set(clean)
    assert set(kept) <= set(clean)


def test_only_offline_runs_that_ended_are_uploaded_and_each_once(own_project):
    runs = own_project / "runs/baseline"
    for name, summary in (("20260101-000000-aaaaaa", True), ("20260101-000001-bbbbbb", False)):
        folder = runs / name / "wandb/offline-run-1"
        folder.mkdir(parents=True)
        (folder / "run.wandb").touch()
        process = {"pid": 1, "pid_started": 0, "pid_space": "elsewhere"}
        (runs / name / "run.json").write_text(json.dumps({"run_id": name, "trial": "baseline", "process": process}))
        if summary:
            (runs / name / "summary.json").write_text(json.dumps({"status": "finished"}))
        else:
            (runs / name / "attempts/1").mkdir(parents=True)
            (runs / name / "attempts/1/start.json").write_text(json.dumps(process))
            (runs / name / "attempts/1/heartbeat").touch()
    said = call(own_project, "lab", "sync", "--dry-run").split()
    assert said == [str(runs / "20260101-000000-aaaaaa/wandb/offline-run-1")]
    (runs / "20260101-000000-aaaaaa/wandb/offline-run-1/run.wandb.synced").touch()
    assert call(own_project, "lab", "sync", "--dry-run") == ""


def test_prefetch_proves_that_a_training_needs_no_network(lab):
    assert "everything is there" in lab("prefetch", "trial=baseline", "trainer=cpu")
    model = lab.folder / "src/myproj/trials/baseline/model.py"
    probe = "import os\nassert os.environ.get('HF_HUB_OFFLINE') != '1', 'weights are fetched here'\n"
    model.write_text(model.read_text().replace("import torch\n", probe + "import torch\n", 1))
    said = lab("prefetch", "trial=baseline", "trainer=cpu", rc=1)
    assert "without the network it fails" in said


def test_a_draft_profile_needs_a_cluster(lab):
    if not any(os.access(f"{folder}/sbatch", os.X_OK) for folder in os.environ["PATH"].split(":")):
        assert "no scheduler" in lab("site", "init", rc=2)
    assert "jean_zay_h100" in lab("site", "show")
    assert "verified: null" in lab("site", "show", "lanta")
