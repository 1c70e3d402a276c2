# ruff: noqa: F811 (fixtures are imported by name)
"""Runs after other runs, and jobs that are sent again: on a real Slurm that enforces memory. Needs root."""

import json
import re
from pathlib import Path

import pytest
from slurm_jobs import (  # noqa: F401
    cluster_with,
    ended,
    job,
    json_of,
    kill_node,
    lab,
    needs_root,
    notice_dead,
    start_node,
    submit,
    training,
    wait_until,
)

pytestmark = needs_root
ENFORCED = """\
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
DefMemPerCPU=1500
"""
HUNGRY = '''"""Takes 1.5 GB in the third epoch; Slurm looks each second, and ends the first attempt."""

import os
import time

import lightning.pytorch as L


class Hungry(L.Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 2:
            self.held = bytearray(b"x") * (1500 << 20)
            time.sleep(20 if os.environ["LAB_NEXT_ATTEMPT"] == "1" else 2)
'''
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


@pytest.fixture(scope="module")
def cluster(slurm_ends):
    """Two nodes that end what takes more memory than it asked for."""
    with cluster_with(ENFORCED):
        yield


def is_over(job_id):
    return job(job_id)["JobState"] in OVER


def shown(lab, sent):
    return json.loads(lab("runs", "show", sent["run_id"], "--json"))


def sent_again(lab, sent, *more):
    """Waits for the end of the job, and returns the one that continues its run, and what `lab queue` said."""
    wait_until(lambda: is_over(sent["job_id"]), "the end")
    queue = lab("queue")
    return json_of(lab("submit", sent["run_id"], *more, "--json")), queue


def test_what_lacked_memory_gets_more_and_continues(lab):
    (lab.folder / "src/myproj/hungry.py").write_text(HUNGRY)
    hungry = "callbacks.hungry._target_=myproj.hungry.Hungry"
    sent = submit(lab, *training(0.0), hungry, "job.mem=1500M", "trainer.max_epochs=4")
    again, queue = sent_again(lab, sent, "job.mem=3000M")
    assert (
        f"    out of memory. To continue with more: lab submit {sent['run_id']} job.mem=…" in queue
    )
    assert job(again["job_id"])["MinMemoryNode"] == "3000M"
    ended(again)
    record = shown(lab, sent)
    assert record["status"] == "finished"
    rows = [json.loads(line) for line in (Path(sent["run_dir"]) / "metrics.jsonl").open()]
    steps = {n: [row["step"] for row in rows if row["attempt"] == n] for n in (1, 2)}
    assert min(steps[2]) > min(steps[1])


def test_a_run_goes_without_the_node_that_failed(lab):
    sent = submit(lab, *training(1.0), 'job.extra=["--no-requeue"]', "job.time=00:05:00")
    wait_until((Path(sent["run_dir"]) / "attempts/1/start.json").exists, "the start")
    node = job(sent["job_id"])["BatchHost"]
    try:
        kill_node(node)
        notice_dead(node)
        again, queue = sent_again(lab, sent, f"job.exclude={node}")
        assert f"    its node failed ({node}); what was saved can be resumed" in queue
        assert job(again["job_id"])["ExcNodeList"] == node
        ended(again)
        assert shown(lab, sent)["status"] == "finished"
    finally:
        start_node(node)


def test_a_run_starts_after_the_runs_of_an_array_and_never_after_one_that_failed(lab):
    sleep = ["job.gpus=0", "job.throttle=2"]
    go = lab.folder / "go"
    waits = f"until [ -e {go} ]; do sleep 0.2; done"
    rows = submit(lab, "seed=0,1", *sleep, "--", "sh", "-c", waits)
    number = rows[0]["job_id"].partition("_")[0]
    fails = submit(lab, *sleep, "--", "sh", "-c", f"{waits}; exit 3")
    after_all = submit(lab, *sleep, f"after={number}", "--", "true")
    never = submit(lab, *sleep, f"after={fails['run_id']},{rows[0]['run_id']}", "--", "true")
    last = submit(lab, *sleep, f"after=any:{never['run_id']}", "--", "true")
    queue = lab("queue")
    assert re.search(rf"{never['run_id']} .*\n    waits for {fails['run_id']} \(", queue)
    go.touch()
    ended(after_all)
    ends = [shown(lab, row)["attempts"][0]["end"]["ended_unix_s"] for row in rows]
    record = shown(lab, after_all)
    assert record["status"] == "finished"
    assert record["attempts"][0]["start"]["started_unix_s"] > max(ends)
    assert set(record["after"]["runs"]) == {row["run_id"] for row in rows}
    wait_until(lambda: is_over(never["job_id"]), "the end of what can never start")
    words = f"never started: run {fails['run_id']}, which it comes after, is failed"
    assert words in lab("queue")
    assert shown(lab, never)["status"] == "cancelled"
    ended(last)
    assert shown(lab, last)["status"] == "finished"
