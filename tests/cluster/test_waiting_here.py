"""Runs for which there is no place wait here: `lab queue` sends them, each once, and never more than fit.

A stand-in for Slurm takes jobs into a file, and the user may have three of them.
"""

import fcntl
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from labrig.cluster.schedulers import all_schedulers
from labrig.cluster.schedulers.job import Limit
from labrig.cluster.submit import send
from labrig.cluster.submit.arrays import JobArray, with_waiting
from labrig.cluster.watch import cancel, queue, unanswered, waiting_here
from labrig.cluster.watch.job_states import JobStates, job_words_of, require_job
from labrig.errors import LabError
from labrig.record.read.run import Run
from labrig.record.read.status import status_of
from test_unanswered import RUN_ID, make_run, plan_of

SBATCH = """#!/bin/sh
[ -e {tools}/refuses ] && {{ cat {tools}/refuses >&2; exit 1; }}
number=$(($(cat {tools}/number) + 1))
echo $number >{tools}/number
echo "$@" >>{tools}/calls
range=$(echo "$@" | sed -n 's/.*--array=\\([0-9]*\\)-\\([0-9]*\\).*/\\1 \\2/p')
if [ -n "$range" ]; then
  for i in $(seq $range); do echo "${{number}}_$i|PENDING|Priority|0:00|N/A"; done >>{tools}/jobs
else
  echo "$number|PENDING|Priority|0:00|N/A" >>{tools}/jobs
fi
echo $number
"""
SQUEUE = """#!/bin/sh
case "$*" in *%k*) cat {tools}/comments ;; *) cat {tools}/jobs ;; esac
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A Slurm whose jobs are lines of slurm.jobs; slurm.end(job) takes one away."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("jobs", "calls", "comments"):
        (tools / name).touch()
    (tools / "number").write_text("70\n")
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE)):
        (tools / name).write_text(text.format(tools=tools))
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    clock = SimpleNamespace(time=time.time, sleep=lambda _: None)
    monkeypatch.setattr(unanswered, "time", clock)
    jobs = tools / "jobs"

    def end(*ids):
        kept = [line for line in jobs.read_text().splitlines() if line.split("|")[0] not in ids]
        jobs.write_text("".join(f"{line}\n" for line in kept))

    def calls():
        return (tools / "calls").read_text().splitlines()

    return SimpleNamespace(tools=tools, jobs=jobs, end=end, calls=calls)


@pytest.fixture
def submitted(slurm, tmp_path, monkeypatch):
    """submitted(n_runs, n_now, throttle): an array of which `n_now` runs are sent, as `lab submit` does."""
    ids = [f"20261120-1900{i + 1:02}-abcdef" for i in range(20)]
    assert ids[0] == RUN_ID

    def submit(n_runs, n_now, throttle=8):
        runs = [make_run(tmp_path, run_id) for run_id in ids[:n_runs]]
        script = runs[0].dir / "job.sh"
        script.write_text("#!/bin/bash\n")
        monkeypatch.setattr(send, "write_script", lambda *_: script)
        plan = replace(plan_of(tmp_path), throttle=throttle)
        array = JobArray(n_runs, throttle, n_waiting=n_runs - n_now, max_jobs=3)
        answer = send.send_runs(plan, runs, None, array)
        assert [one.run_id for one in answer] == ids[:n_runs]
        assert [bool(one.job_id) for one in answer] == [True] * n_now + [False] * (n_runs - n_now)
        return runs

    return submit


@pytest.fixture
def lab_queue(tmp_path, monkeypatch):
    """lab_queue(): prints the jobs as the command does; the ids of the jobs by run."""
    for module in (queue, cancel):
        monkeypatch.setattr(module, "run_roots", lambda _: [tmp_path / "runs"])
    monkeypatch.setattr(queue, "print_waits", lambda _: None)
    return lambda: {job.run_id: job.job_id for job in queue.print_queue(None)}


def ids_of(runs):
    return [Run.open(run.dir).record["job"].get("id") for run in runs]


def test_runs_wait_and_are_sent_as_places_become_free(slurm, submitted, lab_queue, capsys):
    runs = submitted(7, 3)
    assert ids_of(runs) == ["71_0", "71_1", "71_2", None, None, None, None]
    jobs = lab_queue()
    assert list(jobs.values()).count("-") == 4
    assert "waiting here, as you may not queue more jobs; lab queue sends it" in (
        capsys.readouterr().out
    )
    slurm.end("71_0", "71_1")
    jobs = lab_queue()
    assert "sent 2 runs that waited here" in capsys.readouterr().err
    assert ids_of(runs)[3:] == ["72_3", "72_4", None, None]
    assert list(jobs.values()).count("-") == 2
    slurm.end("71_2", "72_3", "72_4")
    lab_queue()
    assert ids_of(runs)[5:] == ["73_5", "73_6"]
    assert [call.split()[1] for call in slurm.calls()] == [
        "--array=0-2%8",
        "--array=3-4%8",
        "--array=5-6%8",
    ]
    assert "waiting" not in Run.open(runs[6].dir).record["job"]
    slurm.end("73_5", "73_6")
    lab_queue()
    assert len(slurm.calls()) == 3


@pytest.mark.release
@pytest.mark.slow
def test_the_throttle_holds_for_all_parts_together(slurm, submitted, lab_queue):
    runs = submitted(6, 3, throttle=2)
    slurm.end("71_0")
    lab_queue()
    assert ids_of(runs)[3] is None  # two are alive, and two may run at once
    slurm.end("71_1")
    lab_queue()
    assert ids_of(runs)[3:] == ["72_3", None, None]


def test_a_run_that_waits_is_queued_in_words_and_not_doubled(slurm, submitted, tmp_path):
    runs = submitted(2, 0)
    assert slurm.calls() == []
    waits = Run.open(runs[1].dir)
    states = JobStates()
    assert status_of(waits.dir, lambda record: states.of(record).state, waits.record) == "queued"
    assert "waiting here" in job_words_of()(waits.dir, waits.record)
    with pytest.raises(LabError, match=r"no job yet.*waiting here"):
        require_job(waits)


def test_two_looks_at_once_send_nothing_twice(slurm, submitted, lab_queue):
    runs = submitted(2, 0)
    with open(runs[0].dir / waiting_here.LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lab_queue()
    assert slurm.calls() == []
    lab_queue()
    assert ids_of(runs) == ["71_0", "71_1"]


def test_what_the_scheduler_refuses_waits_on(slurm, submitted, lab_queue, capsys):
    runs = submitted(2, 0)
    (slurm.tools / "refuses").write_text("sbatch: error: Job violates accounting/QOS policy\n")
    lab_queue()
    output = capsys.readouterr()
    assert "2 runs that waited here: they wait on" in output.err
    assert "violates accounting" in output.err
    (slurm.tools / "refuses").unlink()
    lab_queue()
    assert ids_of(runs) == ["71_0", "71_1"]


def test_without_an_answer_it_is_unknown_found_later_and_not_taken_for_an_earlier_part(
    slurm, submitted, lab_queue
):
    runs = submitted(3, 1)
    assert ids_of(runs) == ["71_0", None, None]
    (slurm.tools / "comments").write_text(f"71|{RUN_ID}|/runs/job.sh\n")
    (slurm.tools / "refuses").write_text("sbatch: error: Socket timed out on send/recv\n")
    lab_queue()
    assert ids_of(runs) == ["71_0", None, None]
    assert "unknown" in Run.open(runs[1].dir).record["job"]
    (slurm.tools / "refuses").unlink()
    lab_queue()
    assert slurm.calls() == ["--parsable --array=0-0%8 " + str(runs[0].dir / "job.sh")]
    (slurm.tools / "comments").write_text(f"71|{RUN_ID}|/runs/job.sh\n72|{RUN_ID}|/runs/job.sh\n")
    slurm.jobs.write_text("72_1|RUNNING|None|0:01|N/A\n72_2|RUNNING|None|0:01|N/A\n")
    lab_queue()
    assert ids_of(runs) == ["71_0", "72_1", "72_2"]
    assert "waiting" not in Run.open(runs[1].dir).record["job"]


def test_a_sending_that_broke_off_before_the_scheduler_got_it_waits_on(slurm, submitted, lab_queue):
    runs = submitted(1, 0)
    job = Run.open(runs[0].dir).record["job"]
    Run.open(runs[0].dir).update(job=job | {"unknown": "x", "submitted_unix_s": 1.0})
    lab_queue()
    assert ids_of(runs) == ["71"]


def test_cancelling_an_array_cancels_what_waits_of_it(slurm, submitted, lab_queue, capsys):
    runs = submitted(4, 2)
    ended = slurm.tools / "ended"
    (slurm.tools / "scancel").write_text(f'#!/bin/sh\necho "$@" >>{ended}\n')
    (slurm.tools / "scancel").chmod(0o755)
    cancel.cancel_here(None, [runs[3].id])
    assert "which waited here" in capsys.readouterr().out
    cancel.cancel_here(None, ["71"])
    assert capsys.readouterr().out.count("cancelled ") == 3
    assert ended.read_text() == "71\n", "one call, for the whole array"
    slurm.jobs.write_text("")
    lab_queue()
    assert len(slurm.calls()) == 1
    for run in runs[2:]:
        now = Run.open(run.dir)
        assert status_of(now.dir, JobStates().of, now.record) == "cancelled"
        assert job_words_of()(now.dir, now.record) == "cancelled while it waited here"


def test_places_go_to_the_first_arrays():
    arrays = [JobArray(3, 4), JobArray(3, 4), JobArray(3, 4)]
    waiting = [array.n_waiting for array in with_waiting(arrays, Limit(10, "x"), 6)]
    assert waiting == [0, 2, 3]


@pytest.mark.parametrize("scheduler", [each for each in all_schedulers() if each.piece])
def test_each_dialect_names_a_part_of_an_array(scheduler):
    words = " ".join(scheduler.piece_options("wide", 3, 5, 2))
    first = scheduler.first_index + 3
    assert f"{first}-{first + 2}" in words
    assert "{" not in words
    assert "{" not in " ".join(scheduler.piece_options("wide", 0, 0, 2))
