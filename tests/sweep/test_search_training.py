"""lab sweep with real trainings: from the first point to the plots, interrupted and pruned ones too."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from labrig.record.files.atomic import read_advisory
from projects import call, environment_of
from trainings import add_trial, rows

pytestmark = pytest.mark.release
CHEAP = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "sweep.metric=val/acc")
WAIT_S = 240


def sweep(folder, *settings, rc=0):
    return call(folder, "lab", "sweep", *CHEAP, *settings, rc=rc, timeout_s=600)


def shown(folder, *words):
    return json.loads(call(folder, "lab", "sweep", "show", *words, "--json"))


def runs_of(folder, sweep_id):
    records = [read_advisory(path) for path in folder.glob("runs/baseline/*/run.json")]
    return [record for record in records if record["parent"] == sweep_id]


def start(folder, *settings):
    """The command in a process group of its own, as a shell starts it."""
    words = [sys.executable, "-m", "labrig", "sweep", *CHEAP, *settings]
    return subprocess.Popen(
        words,
        cwd=folder,
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_twelve_points_end_better_than_the_default(home):
    epochs = "trainer.max_epochs=2"
    first = min(home.glob("runs/baseline/*/summary.json"))  # of two epochs, too
    default = read_advisory(first)
    assert default["parent"] is None
    space = ["optimizer.lr=tag(log,interval(1e-4,3e-2))", "model.width=choice(16,32)"]
    words = [epochs, *space, "sweep.points=12", "sweep.workers=2"]
    output = sweep(home, *words)
    assert "[12/12]" in output
    result = shown(home)
    complete = [point for point in result["points"] if point["state"] == "complete"]
    best = max(point["values"][0] for point in complete)
    assert best > default["metrics"]["val/acc"]
    assert len(runs_of(home, result["sweep_id"])) == 12
    assert result["importance"] == {}, "of twelve points it would be chance"
    # the same command again has nothing to do
    assert "all points are done" in sweep(home, *words)
    assert len(shown(home)["points"]) == 12
    # another search begins with these points, and with the run that no sweep made
    output = sweep(home, epochs, space[0], "sweep.points=1", "--from", result["sweep_id"])
    n_same = sum(point["params"]["model.width"] == "32" for point in complete)
    assert f"added {n_same} points of earlier runs" in output
    sweep(home, epochs, "optimizer.lr=interval(1e-4,2e-2)", "sweep.points=1", "--from", "runs")
    assert default["run_id"] in {point["run"] for point in shown(home)["points"]}
    model = home / "src/myproj/trials/baseline/model.py"
    before = model.read_text()
    model.write_text(f"{before}\n# edited\n")
    again = [epochs, "optimizer.lr=interval(2e-4,2e-2)", "sweep.points=1", "--from", "runs"]
    output = sweep(home, *again)
    model.write_text(before)
    assert "added 0 points of earlier runs" in output
    assert "others are of other code, so their values do not compare" in output
    text = call(home, "lab", "sweep", "show", result["sweep_id"], "--plot")
    pictures = list(home.glob(f"runs/sweeps/{result['sweep_id']}/plots/*.png"))
    assert {path.stem.rpartition("-")[2] for path in pictures} == {
        "history",
        "slice",
        "parallel",
        "contour",
    }
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.count("best") == 1
    assert "which settings matter is shown from 20 complete points on" in text


def test_an_interrupted_point_is_resumed_by_the_same_command(home):
    words = ["trainer.max_epochs=8", "optimizer.lr=1e-4,2e-4", "sweep.workers=1", "seed=5"]
    process = start(home, *words)
    before = {
        path.parent.parent.name for path in home.glob("runs/baseline/*/checkpoints/last.ckpt")
    }
    wait_until_new_checkpoint(home, before)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, output
    assert "the same command continues" in output
    result = shown(home)
    (stopped,) = [point for point in result["points"] if point["state"] == "stopped"]
    attempts = home / "runs/baseline" / stopped["run"] / "attempts"
    sweep(home, *words)
    result = shown(home)
    assert [point["state"] for point in result["points"]] == ["complete", "complete"]
    assert stopped["run"] in {point["run"] for point in result["points"]}
    assert len(runs_of(home, result["sweep_id"])) == 2
    assert {path.name for path in attempts.iterdir()} == {"1", "2"}
    beginning = json.loads((attempts / "2/beginning.json").read_text())
    assert beginning["step"] > 0


def wait_until_new_checkpoint(folder, before):
    end_s = time.monotonic() + WAIT_S
    while True:
        paths = folder.glob("runs/baseline/*/checkpoints/last.ckpt")
        if {path.parent.parent.name for path in paths} - before:
            return
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_points_that_fall_behind_are_pruned(home):
    rates = "optimizer.lr=1e-3,2e-3,3e-3,4e-3,5e-3,1e-7"  # the last one learns nothing
    words = ["trainer.max_epochs=3", rates, "sweep.workers=1", "sweep.pruner=median"]
    output = sweep(home, *words)
    assert "pruned  optimizer.lr=1e-07" in output
    result = shown(home)
    last = result["points"][-1]
    assert last["state"] == "pruned"
    summary = json.loads((home / "runs/baseline" / last["run"] / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert "pruned at step" in call(home, "lab", "runs", "show", last["run"])
    # by hand it trains to its end: nobody prunes it then
    call(home, "lab", "resume", last["run"])
    summary = json.loads((home / "runs/baseline" / last["run"] / "summary.json").read_text())
    assert summary["status"] == "finished"


def test_a_metric_that_is_not_there_ends_a_search_early(home):
    words = ("trainer=cpu", "trainer.threads=1", "trainer.max_epochs=3", "optimizer.lr=1e-3,2e-3")
    words = ("lab", "sweep", *words, "sweep.metric=val/nosuch:max")
    sweeps = set(home.glob("runs/sweeps/*/sweep.json"))
    said = call(home, *words, "trial=baseline", rc=2)
    assert "sweep.metric=val/nosuch: no run has the metric 'val/nosuch'" in said
    assert set(home.glob("runs/sweeps/*/sweep.json")) == sweeps
    files = {"config_yaml": "config.yaml", "model_py": "model.py"}
    trial = home / "src/myproj/trials/baseline"
    add_trial(home, "fresh", **{key: (trial / name).read_text() for key, name in files.items()})
    said = call(home, *words, "trial=fresh", "sweep.workers=1", rc=2, timeout_s=600)
    assert "sweep.metric=val/nosuch is not logged in validation" in said
    assert "2 points left; each would end like the first, for the reason above" in said
    (summary,) = home.glob("runs/fresh/*/summary.json")
    assert read_advisory(summary)["status"] == "failed"
    assert {row["epoch"] for row in rows({"run_dir": summary.parent})} <= {0}


def test_a_worker_asks_no_gpu_before_it_forks(home):
    """A process that has asked CUDA once cannot use it in a fork."""
    program = (
        "import torch\n"
        "def asked(*_):\n"
        "    raise AssertionError('CUDA was asked')\n"
        "for name in ('is_available', 'device_count', 'current_device', 'init'):\n"
        "    setattr(torch.cuda, name, asked)\n"
        "import myproj.train\n"
        "import labrig.sweep.worker\n"
        "assert not torch.cuda.is_initialized()\n"
        "print('never')\n"
    )
    assert "never" in call(home, sys.executable, "-c", program, PYTHONPATH=home / "src")
