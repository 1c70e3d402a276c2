"""A training that stands still: `lab queue` says so, and each process writes where it is."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from labrig.cluster import job
from labrig.cluster.schedulers.slurm import Slurm
from labrig.cluster.watch import queue
from labrig.cluster.watch.job_states import JobStates
from labrig.cluster.watch.logs import ask_for_stacks
from labrig.cluster.watch.queue import standstill
from labrig.errors import LabError
from labrig.machine.stop import STACKS_SIGNAL, stacks_on_request
from labrig.record.files.manifest import listed_files
from labrig.record.files.process import user
from labrig.record.read.run import Run
from labrig.record.write.begin import begin_attempt
from record_package import create, make_project
from records import write_record
from test_cluster_ends import fake  # noqa: F401

RUN_ID = "20261121-100000-abcdef"
HANGS = """
import json, sys, time
from pathlib import Path
from labrig.machine.stop import stacks_on_request
from labrig.record.files.process import process_facts
def waits_for_a_rank_that_is_gone():
    print(flush=True)
    time.sleep(60)
folder = Path(sys.argv[1])
(folder / "lock").write_text(json.dumps(process_facts()))
with stacks_on_request(folder / "stack-0.txt"):
    waits_for_a_rank_that_is_gone()
"""


@pytest.fixture
def run(tmp_path):
    """A run whose attempt has begun, as a job of Slurm."""
    run_dir = tmp_path / RUN_ID
    folder = run_dir / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text(json.dumps({"world_size": 1, "host": "c1"}))
    on_slurm = {"id": "12", "site": "slurm", "scheduler": "slurm"}
    write_record(run_dir, who=user(), host="login1", job=on_slurm)
    return Run.open(run_dir)


def test_a_process_that_hangs_is_asked_where_it_is(run):
    folder = run.dir / "attempts" / "1"
    command = [sys.executable, "-c", HANGS, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            (file,) = ask_for_stacks(run)
        finally:
            process.kill()
    assert file == folder / "stack-0.txt"
    assert "waits_for_a_rank_that_is_gone" in file.read_text()
    with pytest.raises(LabError, match="does not run now"):
        ask_for_stacks(run)


def test_a_job_is_asked_with_one_call_and_a_scheduler_without_such_a_signal_is_named(
    run,
    fake,  # noqa: F811
    monkeypatch,
):
    folder = run.dir / "attempts" / "1"
    (folder / "lock").write_text(json.dumps({"host": "c1", "pid": 1, "pid_space": "elsewhere"}))
    fake("squeue", "12|RUNNING|None|10:00|N/A\n")
    fake("scancel", rc=f"$(echo stacks >>{folder}/stack-0.txt)")
    assert ask_for_stacks(run) == [folder / "stack-0.txt"]
    assert "scancel --signal=URG 12" in fake.calls.read_text().splitlines()
    monkeypatch.setattr(Slurm, "stacks_command", ())
    with pytest.raises(LabError, match=r"Type on its nodes \(c1\): pkill -URG"):
        ask_for_stacks(run)


def test_a_file_that_nobody_asked_for_is_removed(tmp_path):
    file = tmp_path / "stack-0.txt"
    with stacks_on_request(file):
        assert file.exists()
    assert not file.exists()
    os.kill(os.getpid(), STACKS_SIGNAL)  # nobody listens any more
    late = tmp_path / "late" / "stack-1.txt"
    with stacks_on_request(late):
        assert not late.parent.exists()
    with stacks_on_request(late):
        late.parent.mkdir()  # by the first process
        while not late.exists():
            time.sleep(0.01)
    assert not late.exists()


@pytest.mark.slow
def test_a_file_that_another_process_may_still_remove_is_not_listed(tmp_path):
    project = make_project(tmp_path / "myproj")
    run = create(project)
    attempt = begin_attempt(run, project)
    for name in ("stack-1.txt", "traceback-1.txt"):
        (attempt.dir / name).touch()
    attempt.end("finished")
    listed = listed_files(run.dir)
    assert "attempts/1/traceback-1.txt" in listed
    assert "attempts/1/stack-1.txt" not in listed


def write_speed(run_dir, times, silent_s):
    rows = [
        {"step": 10 * n, "epoch": 0, "attempt": 1, "time_unix_s": at} for n, at in enumerate(times)
    ]
    file = run_dir / "speed.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    moved_s = time.time() - silent_s
    os.utime(file, (moved_s, moved_s))


def test_a_training_without_steps_is_named_with_the_time_of_one(run):
    hour_s = 3600
    assert standstill(run.dir, hour_s) == ""  # no speed was written
    write_speed(run.dir, [0, 3, 6, 9], silent_s=720)
    words = "no step for 12 min (a step takes 0.3 s): lab logs"
    assert standstill(run.dir, hour_s).startswith(words)
    assert standstill(run.dir, running_s=100) == ""  # this attempt has just begun
    write_speed(run.dir, [0, 3, 6, 9], silent_s=100)
    assert standstill(run.dir, hour_s) == ""
    write_speed(run.dir, [0, 3, 6, 600], silent_s=720)  # a validation of ten minutes before
    assert standstill(run.dir, hour_s) == ""
    start = run.dir / "attempts/1/start.json"
    start.write_text(json.dumps({"tested_weights": "best"}))
    write_speed(run.dir, [0, 3, 6, 9], silent_s=720)
    assert standstill(run.dir, hour_s) == ""  # it tests


def test_ranks_that_do_not_stop_write_where_they_are_once_before_they_are_killed():
    script = (Path(job.__file__).parent / "job.sh").read_text()
    loop = re.search(r"signal_ranks_repeatedly\(\) {.*?\n}\n", script, re.DOTALL)[0]
    stubs = "n_signals=0\nsleep() { :; }\nask_stacks() { echo stacks; return 1; }\n"
    stubs += "signal_ranks() { echo signal; n_signals=$((n_signals + 1)); [ $n_signals -lt 5 ]; }\n"
    done = subprocess.run(
        ["bash", "-euc", f"{stubs}{loop}signal_ranks_repeatedly"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.split() == ["signal", "signal", "stacks", "signal", "signal", "signal"]


def test_the_queue_asks_about_runs_that_run(run, fake, monkeypatch):  # noqa: F811
    fake("squeue", "12|RUNNING|None|10:00|N/A\n")
    monkeypatch.setattr(queue, "standstill", lambda run_dir, running_s: f"no step of {running_s} s")
    assert queue._job_of(run.dir, JobStates()).reason == "no step of 600 s"
