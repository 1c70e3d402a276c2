# ruff: noqa: F811 (fixtures are imported by name)
"""Jobs by run: their state in listings, queue, logs, cancel, sync, prefetch; the schedulers' answers are recorded."""

import json
import os
import re
import sys
import time
from itertools import count
from types import SimpleNamespace

import pytest
from labrig.cluster.watch import logs, queue
from labrig.project import Project
from projects import call
from recorded_answers import SQUEUE, lab, make_run  # noqa: F401


def statuses(lab):
    """The status in `lab runs list` of each run, by the number that make_run was given."""
    return {row["run_id"][14]: row["status"] for row in json.loads(lab("runs", "list", "--json"))}


@pytest.mark.slow
def test_a_run_has_the_state_that_its_scheduler_gives(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "12"})
    # preempted, and queued again
    make_run(lab, 3, {"id": "13_4"}, ends="interrupted", requeue=True)
    # killed: the scheduler has forgotten it, and it did not write how it ended
    make_run(lab, 4, {"id": "14"}, starts=True)
    make_run(lab, 5, {"id": "15"})
    # preempted, then cancelled in the queue
    make_run(lab, 6, {"id": "16"}, ends="interrupted", requeue=True)
    make_run(lab, 7, {"id": "17"}, ends="finished")
    expected = {
        "1": "running",
        "2": "queued",
        "3": "queued",
        "4": "lost",
        "5": "lost",
        "6": "interrupted",
        "7": "finished",
    }
    assert statuses(lab) == expected
    # asked once, however many runs there are
    assert lab.calls.read_text().count("squeue") == 1
    assert json.loads(lab("runs", "show", "20261120-190004", "--json"))["status"] == "lost"
    assert "  lost  " in lab("runs", "show", "20261120-190004").splitlines()[0]
    news = lab()
    assert re.search(
        r"running:\n  20261120-190001.*\nqueued:\n  20261120-190003.*\n  20261120-190002", news
    )
    assert re.search(r"lost:\n  20261120-190005.*\n  20261120-190004", news)


@pytest.mark.slow
def test_no_scheduler_is_asked_about_runs_that_have_ended_or_have_no_job(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, ends="finished")
    (make_run(lab, 2, {"id": "12"}, ends="interrupted") / "job.over").touch()  # it was seen once
    make_run(lab, 3, None, starts=True)
    make_run(lab, 4, {"id": "11"}, who="somebody else")
    assert statuses(lab) == {"1": "finished", "2": "interrupted", "3": "running", "4": "queued"}
    lab()
    lab("runs", "show", "@last")
    lab("sync", "--dry-run")
    assert lab.calls.read_text() == ""


@pytest.mark.slow
def test_without_an_answer_the_heartbeat_counts(lab):
    lab.fake("squeue", "slurm_load_jobs error: Unable to contact slurm controller", rc=1)
    make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "12"})
    make_run(lab, 3, {"id": "13"}, ends="interrupted", requeue=True)
    elsewhere = {"scheduler": "local", "site": "workstation", "id": "1-1"}
    make_run(lab, 4, elsewhere, starts=True, host="the other workstation")
    assert statuses(lab) == {"1": "running", "2": "queued", "3": "queued", "4": "running"}
    output = lab("queue")
    assert output.count("Unable to contact") == 1, "once, not for each run"
    assert "it is on the other workstation" in output
    assert "cannot be cancelled from here" in lab("cancel", "20261120-190004", rc=2)


@pytest.mark.slow
def test_a_cold_listing_with_a_job_to_ask_about_imports_nothing_heavy(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True)
    heavy = "{'torch', 'lightning', 'hydra', 'omegaconf', 'numpy', 'h5py', 'sqlite3'}"
    code = f"import sys; from labrig.cli import main; main(); print(sorted({heavy} & set(sys.modules)))"
    for words in ([], ["runs", "list"], ["runs", "show", "@last"], ["queue"]):
        output = call(lab.folder, sys.executable, "-c", code, *words)
        assert output.splitlines()[-1] == "[]", words


def test_the_queue_tells_state_reason_and_cost_in_80_columns(lab):
    lab.fake("squeue", SQUEUE)
    make_run(lab, 1, {"id": "11"}, starts=True, trial="a_trial_with_a_long_name")
    make_run(lab, 2, {"id": "12"})
    make_run(lab, 3, {"id": "14"}, starts=True)  # over
    lines = lab("queue").splitlines()
    assert len(lines) == 7
    assert re.fullmatch(
        r"20261120-190002-abcdef  baseline +12 +queued +\d+:\d\d:\d\d +0\.0", lines[1]
    )
    assert lines[2] == "    the job it depends on failed, so it will never start; lab cancel it"
    assert re.fullmatch(
        r"20261120-190001-abcdef  a_trial_with_a +11 +running +25:00:05 +200\.0", lines[3]
    )
    assert lines[4] == "stopped in the last 24 hours:"
    assert lines[5] == "20261120-190003-abcdef  baseline        14"
    assert (
        lines[6] == "    over without a reason; did its node die? lab logs 20261120-190003-abcdef"
    )
    assert max(map(len, lines)) <= 80


@pytest.mark.release
@pytest.mark.slow
def test_the_id_of_a_job_is_as_good_as_a_run(lab):
    lab.fake("squeue", SQUEUE)
    lab.fake("scancel")
    make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "13_4"})
    make_run(lab, 3, {"id": "13_5"})
    make_run(lab, 4, {"id": "21", "earlier_ids": ["20"]}, ends="finished")

    def shown(word):
        return json.loads(lab("runs", "show", word, "--json"))["run_id"][14]

    assert [shown(word) for word in ("11", "13_4", "20", "21")] == ["1", "2", "4", "4"]
    assert "'13' means 2 runs" in lab("runs", "show", "13", rc=2)
    assert "no run '14'" in lab("runs", "show", "14", rc=2)
    # all of an array that are not over
    assert "cancelled job 13_4" in lab("cancel", "13")
    assert "scancel 13_5" not in lab.calls.read_text()


def test_a_chain_is_one_job_in_the_queue_and_is_cancelled_from_its_end(lab):
    lab.fake("squeue", SQUEUE)
    lab.fake("scancel")
    make_run(lab, 1, {"id": "10", "chain": ["10", "11", "12"]}, starts=True)
    assert re.search(r"^20261120-190001-abcdef  baseline +11 +running", lab("queue"), re.M)
    assert "cancelled job 11" in lab("cancel", "10")
    calls = [line for line in lab.calls.read_text().splitlines() if "scancel" in line]
    assert calls == ["scancel 12 11"]


@pytest.mark.slow
def test_the_typical_wait_of_a_queue_is_the_median_of_ones_own_runs(lab):
    lab.fake("squeue", SQUEUE)
    for n, (waited_s, who) in enumerate([(60, {}), (600, {}), (120, {}), (9, {"who": "bob"})]):
        job = {"id": str(n), "queue": "gpu", "submitted_unix_s": 1000.5}
        directory = make_run(lab, n, job, starts=True, **who)
        start = directory / "attempts/1/start.json"
        began = {"job": {"id": str(n), "started_unix_s": 1001 + waited_s}}
        start.write_text(json.dumps(json.loads(start.read_text()) | began))
    assert "typical wait" not in lab("queue")
    make_run(lab, 5, {"id": "11"}, starts=True)
    assert "\ntypical wait: 0:02:00 in gpu of slurm (3 runs)\n" in lab("queue")
    assert "  waited      0:10:00 in gpu of slurm" in lab("runs", "show", "20261120-190001")


def test_a_watched_queue_asks_no_faster_than_allowed_and_ends(lab, tmp_path, monkeypatch, capsys):
    sites = tmp_path / "sites"
    sites.mkdir()
    (sites / "ours.yaml").write_text("poll_s: 0.1\n")  # less than any scheduler is asked
    monkeypatch.setenv("LAB_SITE_PATH", str(sites))
    monkeypatch.setenv("PATH", str(lab.tools), prepend=os.pathsep)
    make_run(lab, 1, {"id": "11", "site": "ours"}, starts=True)
    lab.fake("squeue", SQUEUE)
    slept_s = []

    def sleep(seconds):
        slept_s.append(seconds)
        if len(slept_s) == 2:
            lab.fake("squeue")  # the job has ended

    monkeypatch.setattr(queue, "time", SimpleNamespace(time=time.time, sleep=sleep))
    queue.queue_command(Project(lab.folder, "myproj"), ["--watch"])
    assert "\n\nno jobs\nstopped in the last 24 hours:\n" in capsys.readouterr().out
    assert slept_s == [queue.MIN_POLL_S] * 2
    assert lab.calls.read_text().count("squeue") == 3


@pytest.mark.slow
def test_logs_of_one_rank_and_why_there_are_none(lab):
    lab.fake("squeue", SQUEUE)
    directory = make_run(lab, 1, {"id": "11"}, ends="finished")
    (directory / "job.log").write_text("prepared\n0: loss 1\n1: loss 2\n10: loss 3\nended")
    assert lab("logs", "@last") == "prepared\n0: loss 1\n1: loss 2\n10: loss 3\nended"
    lab.fake("squeue")  # the job has ended
    assert lab("logs", "@last", "--rank", "1", "-f") == "prepared\n1: loss 2\nended"
    lab.fake("squeue", SQUEUE)
    make_run(lab, 2, {"id": "12"})
    assert "it is queued" in lab("logs", "@last", rc=2)
    make_run(lab, 3, None, ends="finished")
    assert "trained in a terminal" in lab("logs", "@last", rc=2)
    assert "did you mean" in lab("logs", "20261120-190009-abcdef", rc=2)


def test_logs_follow_the_job_script_to_its_last_line(lab, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(lab.tools), prepend=os.pathsep)
    lab.fake("squeue", SQUEUE)
    log = make_run(lab, 1, {"id": "11"}, ends="finished") / "job.log"
    log.write_text("0: loss 1\n")

    def sleep(seconds):
        with log.open("a") as file:
            file.write("ended with code 0")
        lab.fake("squeue")

    clock = SimpleNamespace(monotonic=count(step=1000).__next__, sleep=sleep)
    monkeypatch.setattr(logs, "time", clock)
    logs.logs_command(Project(lab.folder, "myproj"), ["@last", "-f"])
    assert capsys.readouterr().out == "0: loss 1\nended with code 0"


def test_cancel_ends_the_job_of_a_run_and_refuses_one_that_is_over(lab):
    lab.fake("squeue", SQUEUE)
    lab.fake("scancel")
    directory = make_run(lab, 1, {"id": "11"}, starts=True)
    make_run(lab, 2, {"id": "19"}, starts=True)
    assert "is over already" in lab("cancel", "20261120-190002", rc=2)
    lab.fake("scancel", rc=1)
    assert "scancel 11 failed" in lab("cancel", "20261120-190001", rc=1)
    assert not (directory / "cancelled").exists(), "it would not resume after a preemption"
    lab.fake("scancel")
    assert "cancelled job 11 of run 20261120-190001-abcdef" in lab("cancel", "20261120-190001")
    assert "scancel 11" in lab.calls.read_text()
    assert (directory / "cancelled").exists()


@pytest.mark.release
@pytest.mark.slow
def test_only_offline_runs_that_ended_are_uploaded_and_each_once(lab):
    lab.fake("squeue", SQUEUE)
    ended = make_run(lab, 1, None, ends="finished")
    running = make_run(lab, 2, None, starts=True)
    requeued = make_run(lab, 3, {"id": "11"}, ends="interrupted", requeue=True)
    for run_dir in (ended, running, requeued):
        folder = run_dir / "wandb/offline-run-1"
        folder.mkdir(parents=True)
        (folder / "run.wandb").touch()
    to_upload = ended / "wandb/offline-run-1"
    assert lab("sync", "--dry-run").split() == [str(to_upload)]
    lab.fake("wandb")
    assert "W&B has no key" in lab("sync", rc=1, WANDB_API_KEY="", NETRC="/nowhere")
    nowhere = {"WANDB_API_KEY": "x", "WANDB_BASE_URL": "http://127.0.0.1:9"}
    assert "127.0.0.1:9 does not answer" in lab("sync", rc=1, **nowhere)
    (to_upload / "run.wandb.synced").touch()  # as W&B does when it has uploaded it
    assert lab("sync") == ""


@pytest.mark.release
def test_prefetch_proves_that_a_training_needs_no_network(lab):
    lab("data", "pack", "digits")
    assert "everything is there" in lab("prefetch", "trial=baseline", "trainer=cpu")
    model = lab.folder / "src/myproj/trials/baseline/model.py"
    probe = (
        "import os\nassert os.environ.get('HF_HUB_OFFLINE') != '1', 'weights are fetched here'\n"
    )
    model.write_text(model.read_text().replace("import torch\n", probe + "import torch\n", 1))
    assert "without the network" in lab("prefetch", "trial=baseline", "trainer=cpu", rc=1)
