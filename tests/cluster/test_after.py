# ruff: noqa: F811 (fixtures are imported by name)
"""`after=RUN` without a scheduler: what is typed, what each dialect is told, what is sent when.

tests/cluster/test_again_on_slurm.py has the real one.
"""

import json
import shlex
from dataclasses import replace

import pytest
from labrig.cluster.schedulers import all_schedulers
from labrig.cluster.submit import after as typed
from labrig.cluster.submit import send
from labrig.cluster.submit.after import after_of_words, split_after
from labrig.cluster.submit.arrays import arrays_of
from labrig.errors import LabError, Refused
from labrig.record.read.run import Run
from labrig.record.write.claim import claim_attempt
from slurm_jobs import wait_until
from test_cluster_local import lab, submit  # noqa: F401
from test_unanswered import make_run, plan_of
from test_waiting_here import lab_queue, slurm, submitted  # noqa: F401

WAITS = {
    "slurm": "--dependency=afterok:12,afterok:13_2,afterany:14 --kill-on-invalid-dep=yes",
    "pbs": "-W 'depend=afterok:12,afterany:13[],afterany:14'",
    "lsf": "-w 'done(12) && done(13[2]) && ended(14)' -ti",
    "gridengine": "-hold_jid 12,13,14",
    "local": "'12 13-2 14'",
    "pjm": None,
}
MEMBER = {"slurm": "13_2", "pbs": "13[2]", "lsf": "13[2]", "gridengine": "13.2", "pjm": "13[2]"}
CHILD = "20261121-190001-abcdef"


@pytest.mark.parametrize("scheduler", all_schedulers(), ids=lambda each: each.name)
def test_each_dialect_waits_for_several_jobs(scheduler):
    member = MEMBER.get(scheduler.name, "13-2")
    options = scheduler.after_options(["12", member], ["14"])
    assert (options and shlex.join(options)) == WAITS[scheduler.name]


@pytest.fixture
def roots(tmp_path, monkeypatch):
    monkeypatch.setattr(typed, "run_roots", lambda _: [tmp_path / "runs"])
    return tmp_path


def ended_run(root, run_id, status):
    run = make_run(root, run_id, id="5")
    (run.dir / "job.over").touch()
    (run.dir / "summary.json").write_text(json.dumps({"format": 1, "status": status}))
    return run


def send_child(root, monkeypatch, after, **more):
    """Sends a run after others, as `lab submit` does; returns it."""
    run = make_run(root, CHILD)
    run.update(after=after)
    script = run.dir / "job.sh"
    script.write_text("#!/bin/bash\n")
    monkeypatch.setattr(send, "write_script", lambda *_: script)
    send.send_runs(replace(plan_of(root), after=after, **more), [run], None)
    return Run.open(run.dir)


def test_what_is_typed_names_runs_in_every_way(slurm, submitted, roots, capsys):
    runs = submitted(4, 2)  # of an array; two wait here
    words, after = split_after(["trial=wide", "after=71", "seed=1,2"])
    assert words == ["trial=wide", "seed=1,2"]
    of_array = after_of_words(None, after)
    assert of_array == {"when": "finished", "runs": {run.id: str(run.dir) for run in runs}}
    assert capsys.readouterr().err == ""
    after_of_words(None, [runs[1].id])
    assert capsys.readouterr().err == (
        f"lab: after={runs[1].id} waits for {runs[1].id} alone, a run of array 71. "
        "To wait for all of it: after=71\n"
    )
    several = after_of_words(None, [f"any:{runs[0].id},@last"])
    assert several == {
        "when": "ended",
        "runs": {run.id: str(run.dir) for run in (runs[0], runs[3])},
    }
    assert after_of_words(None, []) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@last,any:@last"], r"after=@last,any:@last: any: stands once, before all runs"),
        (["@last", "any:@last"], r"after=@last after=any:@last: any: stands once"),
        ([""], "'' names no run"),
        (["wide"], "no run 'wide'"),
    ],
)
def test_wrong_words_are_answered(roots, words, message):
    ended_run(roots, CHILD, "finished")
    with pytest.raises(LabError, match=message):
        after_of_words(None, words)


@pytest.mark.parametrize("status", ["failed", "trained", "interrupted", "lost"])
def test_a_run_that_has_not_finished_is_refused_with_what_to_type(roots, status):
    run = ended_run(roots, CHILD, status)
    advice = f"is {status}.*lab runs show {run.id}\n.*after=any:{run.id}"
    with pytest.raises(Refused, match=advice):
        after_of_words(None, ["@last"])
    assert after_of_words(None, ["any:@last"])["when"] == "ended"


def test_a_finished_run_needs_no_dependency(slurm, roots, monkeypatch):
    ended_run(roots, "20261120-190001-abcdef", "finished")
    send_child(roots, monkeypatch, after_of_words(None, ["@last"]))
    assert "dependency" not in slurm.calls()[0]


def test_a_run_after_one_that_waits_here_waits_too_and_follows_it(
    slurm, submitted, roots, lab_queue, monkeypatch, capsys
):
    runs = submitted(4, 3)
    child = send_child(roots, monkeypatch, after_of_words(None, [runs[3].id]))
    assert len(slurm.calls()) == 1
    lab_queue()
    assert f"waiting here; waits for {runs[3].id} (queued)" in capsys.readouterr().out
    slurm.end("71_0")
    lab_queue()  # sends the one
    lab_queue()  # then the other
    assert "--dependency=afterok:72_3 --kill-on-invalid-dep=yes" in slurm.calls()[2]
    assert Run.open(child.dir).record["job"]["id"] == "73"
    capsys.readouterr()
    lab_queue()
    assert f"    waits for {runs[3].id} (queued)" in capsys.readouterr().out


def test_what_waits_here_for_a_run_that_fails_is_refused(
    slurm, submitted, roots, lab_queue, monkeypatch, capsys
):
    (run,) = submitted(1, 0)
    child = send_child(roots, monkeypatch, after_of_words(None, [run.id]))
    (run.dir / "summary.json").write_text(json.dumps({"format": 1, "status": "failed"}))
    run.update(job=run.record["job"] | {"refused": "x"})
    lab_queue()
    assert "is failed, so a run after it would never start" in capsys.readouterr().err
    assert "refused" in Run.open(child.dir).record["job"]
    assert slurm.calls() == []


@pytest.mark.parametrize("change", [{"goes_on": True}, {"scheduler": "pbs"}])
def test_a_run_that_may_go_on_in_another_job_or_elsewhere_is_waited_for_here(
    slurm, roots, monkeypatch, change
):
    run = make_run(roots, "20261120-190001-abcdef", id="71")
    slurm.jobs.write_text("71|RUNNING|None|0:01|N/A\n")
    run.update(job=run.record["job"] | change)
    child = send_child(roots, monkeypatch, after_of_words(None, [run.id]))
    assert "waiting" in child.record["job"]
    assert slurm.calls() == []


def test_what_can_neither_wait_here_nor_be_told_the_scheduler_is_refused(slurm, roots):
    run = make_run(roots, "20261120-190001-abcdef", id="71")
    slurm.jobs.write_text("71|RUNNING|None|0:01|N/A\n")
    run.update(job=run.record["job"] | {"goes_on": True})
    plan = replace(
        plan_of(roots), after=after_of_words(None, [run.id]), guard="sent from elsewhere"
    )
    with pytest.raises(LabError, match=r"slurm cannot wait for all of these(?s:.*)job\.chunk$"):
        arrays_of(plan)


def test_a_chain_is_waited_for_until_its_last_chunk_is_over(slurm, roots, monkeypatch):
    run = make_run(roots, "20261120-190001-abcdef", id="71")
    run.update(job=run.record["job"] | {"chain": ["71", "72"]})
    slurm.jobs.write_text("72|PENDING|Dependency|0:00|N/A\n")
    send_child(roots, monkeypatch, after_of_words(None, [run.id]))
    assert "--dependency=afterany:72" in slurm.calls()[0]


@pytest.mark.release
def test_without_a_scheduler_a_process_waits_for_the_others(lab):
    go = lab.folder / "go"
    waits = f"until [ -e {go} ]; do sleep 0.2; done"
    first = submit(lab, "--", "sh", "-c", waits)
    fails = submit(lab, "--", "sh", "-c", f"{waits}; exit 3")
    second = submit(lab, f"after={first['run_id']}", "--", "true")
    never = submit(lab, f"after={fails['run_id']}", "--", "true")
    assert f"    waits for {first['run_id']} (" in lab("queue")

    go.touch()

    def is_over():
        return lab("queue").startswith("no jobs")

    wait_until(is_over, "the end of all")
    one, two = (
        json.loads(lab("runs", "show", sent["run_id"], "--json")) for sent in (first, second)
    )
    assert two["status"] == "finished"
    ended_unix_s = one["attempts"][0]["end"]["ended_unix_s"]
    assert two["attempts"][0]["start"]["started_unix_s"] > ended_unix_s
    assert f"after       {first['run_id']}\n" in lab("runs", "show", second["run_id"])
    words = f"never started: run {fails['run_id']}, which it comes after, has not finished"
    assert words in lab("queue")
    assert json.loads(lab("runs", "show", never["run_id"], "--json"))["status"] == "cancelled"
    advice = lab("submit", "trial=baseline", "site=workstation", f"after={fails['run_id']}", rc=4)
    assert f"lab runs show {fails['run_id']}" in advice
    both = [f"after={first['run_id']}", "job.after=3", "site=slurm", "job.gpus=0"]
    assert "say it one way only" in lab("submit", "trial=baseline", *both, rc=2)


def test_the_attempt_of_a_job_that_was_over_needs_no_silence(tmp_path):
    run = make_run(tmp_path, CHILD, id="8")
    attempt = run.dir / "attempts/1"
    attempt.mkdir(parents=True)
    (attempt / "lock").write_text(json.dumps({"host": "c1", "pid": 1, "pid_space": "c1"}))
    with pytest.raises(LabError, match="is running on c1"):
        claim_attempt(run.dir)
    run.update(job=run.record["job"] | {"attempt": 2})  # as `lab submit RUN` sends it
    assert claim_attempt(run.dir) == 2
    (run.dir / "attempts/2/lock").write_text(
        json.dumps({"host": "c1", "pid": 1, "pid_space": "c1"})
    )
    with pytest.raises(LabError, match="is running on c1"):
        claim_attempt(run.dir)
