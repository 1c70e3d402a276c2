# ruff: noqa: F811 (fixtures are imported by name)
"""A sweep as a job array on a real Slurm of two nodes, with workers killed and preempted.

Needs root; `make test-cluster` runs it.
"""

import json
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

from labrig.record.files.atomic import read_advisory
from projects import copy_library
from slurm_jobs import (  # noqa: F401
    cluster,
    lab,
    left_in_memory,
    needs_root,
    slurm,
    start_requeued,
    wait_until,
)

pytestmark = needs_root
SITE = ("site=slurm", "job.gpus=0", "job.time=00:20:00", "job.cpus_per_task=1", "job.throttle=3")
SETTINGS = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "trainer.max_epochs=2")
N_POINTS = 10


def shown(lab):
    return json.loads(lab("sweep", "show", "--json").splitlines()[-1])


def n_done(lab):
    result = shown(lab)
    return result["n_points"] - result["n_open"]


def working(lab):
    """The run directories of the workers that have begun."""
    return sorted(
        path.parents[2] for path in lab.folder.glob("runs/command/*/attempts/1/start.json")
    )


def job_id(run_dir):
    return read_advisory(run_dir / "run.json")["job"]["id"]


def kill_job(job):
    """kill -9 for all that a job has started; scancel would send TERM first."""
    (number,) = slurm("squeue", "--noheader", "--format=%A", f"--jobs={job}").split()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"SLURM_JOB_ID={number}".encode() in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def all_over(requeued):
    """Whether no job is left; the one that was requeued is not kept waiting."""
    start_requeued(requeued)
    return not slurm("squeue", "--noheader").strip()


def sweep(lab):
    return lab("sweep", *SETTINGS, *SITE, f"seed=range(0,{N_POINTS})", "sweep.workers=4")


def library_with_short_silence(folder):
    """A copy of labrig that counts a silent process as dead after a minute in place of ten."""
    file = copy_library(folder) / "labrig/record/read/status.py"
    text = file.read_text()
    assert "SILENT_S = 600" in text
    file.write_text(text.replace("SILENT_S = 600", "SILENT_S = 60"))
    return folder


def test_an_array_of_workers_loses_and_doubles_no_point(lab, tmp_path, monkeypatch):
    # The jobs have this copy too: it is frozen with the code.
    monkeypatch.setenv("PYTHONPATH", str(library_with_short_silence(tmp_path)))
    output = sweep(lab)
    assert output.count("job ") >= 4
    assert f"0 of {N_POINTS} points done" in output
    (script,) = lab.folder.glob("runs/command/*/job.sh")
    assert "--array=0-3%3" in script.read_text(), "the throttle"
    wait_until(lambda: n_done(lab) >= 2 and len(working(lab)) >= 2, "two points", every_s=2)
    killed, preempted, *_ = working(lab)
    # one worker is preempted in the middle of a point, another is killed with all it started
    slurm("scancel", "--batch", "--signal=USR2", job_id(preempted))
    kill_job(job_id(killed))
    wait_until(lambda: n_done(lab) >= N_POINTS - 2, "the other points", 900, every_s=2)
    wait_until(lambda: all_over(job_id(preempted)), "the end of all jobs", 900)
    if n_done(lab) < N_POINTS:  # what the killed worker had
        sweep(lab)
        wait_until(lambda: n_done(lab) == N_POINTS, "the last points", 600)
        wait_until(lambda: not slurm("squeue", "--noheader").strip(), "the end of all jobs", 600)
    assert read_advisory(killed / "summary.json") is None, "it was killed"
    assert "requeue" in (preempted / "job.log").read_text()
    result = shown(lab)
    seeds = Counter(
        point["params"]["seed"] for point in result["points"] if point["state"] == "complete"
    )
    assert seeds == Counter(range(N_POINTS))
    runs = [read_advisory(path) for path in lab.folder.glob("runs/baseline/*/summary.json")]
    finished = [run for run in runs if run["status"] == "finished"]
    assert sorted(run["seed"] for run in finished) == list(range(N_POINTS))
    assert {run["parent"] for run in finished} == {result["sweep_id"]}
    assert "all points are done" in sweep(lab)
    # what a killed job left on a node goes when the next one begins there
    lab("submit", "site=slurm", "job.gpus=0", "job.time=00:05:00", "job.nodes=2", "--", "true")
    wait_until(lambda: not slurm("squeue", "--noheader").strip(), "the end of all jobs")
    assert left_in_memory() == []
