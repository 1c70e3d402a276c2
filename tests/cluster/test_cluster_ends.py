"""How a job ended that could not write it: from the answers of schedulers, the exit of its script, its log."""

import json
import os
import re
import time

import pytest
from labrig.cluster.watch import queue as stopped
from labrig.cluster.watch.job_states import JobStates, how_job_ended, words_of_scheduler
from labrig.project import Project
from labrig.record.files.process import user
from records import whole_record

# As Slurm 22.05 and Grid Engine 8.1.9 print it, shortened
SCONTROL = """\
JobId=12 JobName=baseline
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:9
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=c2
   BatchHost=c2
"""
QACCT = """\
==============================================================
qname        all.q
hostname     g1
taskid       {task}
failed       {failed}
exit_status  137                  (Killed)
"""
LIMIT_LOG = (
    "slurmstepd-c1: error: StepId=1.0 exceeded memory limit (2067587072 > 1572864000), being"
)
OOM_LOG = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks\n"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """fake(command, text, rc): what a scheduler's command answers; the calls are in fake.calls."""
    tools = tmp_path / "tools"
    tools.mkdir()
    calls = tools / "calls"
    calls.touch()
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)

    def fake(name, text="", rc=0):
        (tools / f"{name}.answer").write_text(text)
        script = (
            f'#!/bin/sh\necho {name} "$@" >>"{calls}"\ncat "{tools}/{name}.answer"\nexit {rc}\n'
        )
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)

    for name in ("scontrol", "sacct", "qacct"):
        fake(name, rc=1)  # forgotten, and no accounting
    fake.calls = calls
    return fake


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def make_run(root, n=1, *, end=None, job_id="12", scheduler="slurm", time_s=1200):
    """The directory of a run whose job is over, and its record."""
    run_dir = root / f"runs/baseline/20261120-19000{n}-abcdef"
    attempt = run_dir / "attempts/1"
    attempt.mkdir(parents=True)
    (attempt / "start.json").write_text(json.dumps({"host": "c1"}))
    if end:
        (attempt / "end.json").write_text(json.dumps({"status": end}))
        (run_dir / "summary.json").write_text(json.dumps({"format": 1, "status": end}))
    job = {"scheduler": scheduler, "site": "slurm", "id": job_id, "time_s": time_s, "lead_s": 120}
    record = whole_record(run_dir.name, who=user(), job=job)
    (run_dir / "run.json").write_text(json.dumps(record))
    return run_dir, record


def assert_words(text, words):
    assert re.match(words, text or ""), text


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("TIMEOUT", "TimeLimit", "killed at its time limit"),
        (
            "OUT_OF_MEMORY",
            "OutOfMemory",
            "out of memory. To continue with more: lab submit .* job.mem=…",
        ),
        ("NODE_FAIL", "NodeDown", r"its node failed \(c2\)"),
        ("FAILED", "JobLaunchFailure", r"its node could not launch it \(c2\)"),
        ("CANCELLED", "None", "cancelled with scancel"),
    ],
)
def test_slurm_says_how_a_job_ended_and_is_asked_once(fake, run, state, reason, words):
    fake("scontrol", SCONTROL.format(state=state, reason=reason))
    assert re.match(words, how_job_ended(*run) or "")
    fake("scontrol", rc=1)  # MinJobAge is over
    assert re.match(words, how_job_ended(*run) or "")
    assert fake.calls.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("TIMEOUT|c1\nCANCELLED|c1\n", "killed at its time limit"),
        ("CANCELLED by 1000|c1\nCANCELLED|c1\n", "cancelled with scancel"),
        ("FAILED|c1\nFAILED|c1\nOUT_OF_MEMORY|c1\n", "out of memory"),
        ("NODE_FAIL|c[1-2]\n", r"its node failed \(c\[1-2\]\)"),
    ],
)
def test_accounting_knows_what_slurm_has_forgotten(fake, run, answer, words):
    fake("sacct", answer)
    assert re.match(words, how_job_ended(*run) or "")


def test_what_only_failed_is_left_to_the_run(fake, tmp_path):
    fake("scontrol", SCONTROL.format(state="FAILED", reason="NonZeroExitCode"))
    run_dir, record = make_run(tmp_path, end="failed")
    assert how_job_ended(run_dir, record) is None
    assert how_job_ended(run_dir, record) is None
    assert fake.calls.read_text().count("\n") == 1  # "" is an answer too
    for n, end in enumerate(("finished", "trained"), start=2):
        assert how_job_ended(*make_run(tmp_path, n, end=end)) is None


def test_slurm_is_asked_again_while_the_job_lives(fake, run):
    fake("scontrol", SCONTROL.format(state="COMPLETING", reason="None"))
    assert words_of_scheduler(*run) == ""
    assert not (run[0] / "job.end").exists()


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ("37  : qmaster enforced h_rt limit", "killed at its limit of time"),
        ("8   : in prolog", r"the site's prolog failed \(g1\)"),
        ("28  : changing into working directory", "changing into working directory"),
    ],
)
def test_grid_engine_says_it_for_the_task_that_is_asked(fake, tmp_path, failed, words):
    blocks = QACCT.format(task=1, failed="0") + QACCT.format(task=2, failed=failed)
    fake("qacct", blocks)
    run = make_run(tmp_path, job_id="12.2", scheduler="gridengine")
    assert re.match(words, how_job_ended(*run) or "")
    of_first = make_run(tmp_path, 2, job_id="12.1", scheduler="gridengine")
    assert_words(how_job_ended(*of_first), "over without a reason")


@pytest.mark.parametrize(
    ("code", "log", "words"),
    [
        ("137 30", "", r"killed \(SIGKILL\), usually for lack of memory"),
        ("137 1100", "", r"ended at its time limit of 00:20:00 \(job.time\)"),
        ("143 1081", "", "ended at its time limit"),
        ("137 30", OOM_LOG, "out of memory. To continue"),
        ("137 30", LIMIT_LOG, "out of memory. To continue"),
        ("139 30", "", "ended by SIGSEGV; lab logs 20261120-190001-abcdef"),
        ("1 30", "", "its script ended with code 1; lab logs"),
        ("1 1190", "", "its script ended with code 1; lab logs"),
        (None, "", "over without a reason; did its node die"),
        ("half a li", "", "over without a reason"),
    ],
)
def test_without_a_scheduler_the_script_and_the_log_say_it(fake, run, code, log, words):
    run_dir, record = run
    record["job"]["scheduler"] = "local"
    (run_dir / "job.log").write_text(log)
    if code:
        (run_dir / "job.code").write_text(code)
    assert re.match(words, how_job_ended(run_dir, record) or "")


def test_a_saved_run_says_that_the_time_limit_ended_it(fake, tmp_path):
    run_dir, record = make_run(tmp_path, end="interrupted")
    (run_dir / "job.code").write_text("130 1085\n")
    assert_words(how_job_ended(run_dir, record), "ended at its time limit")
    (run_dir / "job.code").write_text("130 600\n")  # a preemption
    assert how_job_ended(run_dir, record) is None
    (run_dir / "cancelled").write_text("")
    assert how_job_ended(run_dir, record) == "cancelled by: lab cancel"
    (run_dir / "cancelled").write_text("stopped: its GPUs did nothing\n")
    assert how_job_ended(run_dir, record) == "stopped: its GPUs did nothing"


def test_the_line_to_type_keeps_what_was_typed_before(run):
    run_dir, record = run
    (run_dir / "job.end").write_text("out of memory\n")
    record["job"]["changed"] = ["job.mem=8G", 'job.extra=["--comment=a b"]']
    continues = "To continue with more: lab submit 20261120-190001-abcdef"
    assert how_job_ended(run_dir, record) == (
        f"out of memory. {continues} 'job.extra=[\"--comment=a b\"]' job.mem=…"
    )
    record["job"]["program"] = ["-m", "labrig", "rank", "--", "true"]  # which begins anew
    assert how_job_ended(run_dir, record) == "out of memory; ask for more with job.mem"


def test_slurm_warns_a_short_job_much_too_early(tmp_path):
    run_dir, record = make_run(tmp_path, end="interrupted", time_s=60)
    record["job"] |= {"lead_s": 15}
    (run_dir / "job.code").write_text("0 19\n")
    words = "ended at its time limit of 00:01:00 (job.time). To continue with more: lab submit "
    assert how_job_ended(run_dir, record) == f"{words}{run_dir.name} job.time=…"


def test_of_a_chain_the_last_chunk_and_its_own_limit_count(fake, tmp_path):
    run_dir, record = make_run(tmp_path, end="interrupted", time_s=3600)
    record["job"] |= {"chain": ["12", "13", "14"], "limit_s": 600, "lead_s": 60}
    (run_dir / "job.code").write_text("130 545\n")
    (run_dir / "chunk_jobs").write_text("12\n13\n")
    assert_words(how_job_ended(run_dir, record), r"ended at its time limit of 00:10:00")
    fake("scontrol", SCONTROL.format(state="NODE_FAIL", reason="NodeDown"))
    assert_words(how_job_ended(run_dir, record), "its node failed")
    assert "scontrol show job 13\n" in fake.calls.read_text()  # 14 was cancelled, unstarted


def test_the_queue_lists_what_was_stopped_lately(fake, tmp_path, monkeypatch):
    fake("scontrol", SCONTROL.format(state="NODE_FAIL", reason="NodeDown"))
    fake("squeue", "16|RUNNING|None|0:01|N/A\n")
    for n, job_id in ((1, "11"), (2, "12"), (3, "13"), (4, "14"), (6, "16")):
        make_run(tmp_path, n, job_id=job_id, end="finished" if n == 3 else None)
    runs = tmp_path / "runs/baseline"
    (runs / "20261120-190002-abcdef/cancelled").touch()  # on purpose: no news
    old = runs / "20261120-190004-abcdef/run.json"
    os.utime(old, (time.time() - 2 * stopped.DAY_S,) * 2)
    project = Project(tmp_path, "myproj")
    monkeypatch.setattr(stopped, "run_roots", lambda _: [tmp_path / "runs"])
    lines = stopped.format_stopped(project, JobStates())
    assert lines == [
        "stopped in the last 24 hours:",
        "20261120-190001-abcdef  baseline        11",
        "    its node failed (c2); what was saved can be resumed",
    ]
    (runs / "20261120-190001-abcdef/cancelled").touch()
    assert stopped.format_stopped(project, JobStates()) == []
