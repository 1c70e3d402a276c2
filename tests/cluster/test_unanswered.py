"""Submissions whose scheduler does not say whether it has the job: asked for, unknown, settled, never doubled.

A stand-in for Slurm answers as files say; tests/cluster/test_cluster_busy.py has the real one.
"""

import json
import os
import time
from types import SimpleNamespace

import pytest
from labrig.cluster.job import rank
from labrig.cluster.schedulers import all_schedulers, scheduler, scheduler_of
from labrig.cluster.schedulers.command import Unanswered
from labrig.cluster.schedulers.job import JobRequest
from labrig.cluster.sites.site import Site
from labrig.cluster.submit import existing_runs, send
from labrig.cluster.submit.plan import Plan
from labrig.cluster.watch import queue, unanswered
from labrig.cluster.watch.cancel import job_to_cancel
from labrig.cluster.watch.job_states import JobStates, job_words_of
from labrig.errors import Failed, LabError, Refused
from labrig.project import Project
from labrig.record.files.process import pid_space, user
from labrig.record.read.run import Run
from labrig.record.read.status import status_of
from records import whole_record

RUN_ID = "20261120-190001-abcdef"
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
REQUEST = JobRequest(
    name="x", nodes=1, gpus=0, tasks_per_node=1, cpus_per_task=1, time_s=3600, lead_s=60
)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """slurm(name, text, rc): what a command of Slurm prints from now on; its calls are in slurm.calls."""
    tools = tmp_path / "tools"
    tools.mkdir()
    calls = tools / "calls"
    calls.touch()
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    clock = SimpleNamespace(time=time.time, sleep=lambda _: None)
    monkeypatch.setattr(unanswered, "time", clock)

    def slurm(name, text="", rc=0):
        (tools / f"{name}.answer").write_text(text)
        stream = 2 if rc else 1
        program = f'echo {name} "$@" >>"{calls}"\ncat "{tools}/{name}.answer" >&{stream}\n'
        (tools / name).write_text(f"#!/bin/sh\n{program}exit {rc}\n")
        (tools / name).chmod(0o755)

    slurm("sbatch", TIMED_OUT, rc=1)
    slurm("squeue")
    slurm("scontrol", "invalid job", rc=1)
    slurm("sacct", "no accounting", rc=1)
    slurm.calls = calls
    return slurm


def make_run(root, run_id=RUN_ID, first=RUN_ID, sent_s_ago=0.0, **job):
    """A run whose job was sent and has no id yet."""
    run_dir = root / "runs/baseline" / run_id
    run_dir.mkdir(parents=True)
    section = {
        "scheduler": "slurm",
        "site": "slurm",
        "script": str(root / "runs/baseline" / first / "job.sh"),
        "submitted_unix_s": time.time() - sent_s_ago,
    }
    record = {
        "who": user(),
        "host": os.uname().nodename,
        "process": {},
        "job": section | job,
    }
    (run_dir / "run.json").write_text(json.dumps(whole_record(run_id, **record)))
    return Run.open(run_dir)


def plan_of(tmp_path):
    values = {"scheduler": "slurm", "requeue": {"method": "scontrol", "max": 50}}
    return Plan(
        project=None,
        site=Site("slurm", tmp_path, "", values),
        request=REQUEST,
        points=[],
        command=[],
        throttle=1,
        runs=tmp_path,
        scratch=tmp_path,
        trains=True,
    )


def job_of(run):
    return json.loads((run.dir / "run.json").read_text())["job"]


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """sent(): sends a run as `lab submit` does, without its script."""
    run = make_run(tmp_path)
    script = run.dir / "job.sh"
    script.write_text("#!/bin/bash\n")
    monkeypatch.setattr(send, "write_script", lambda *_: script)
    return lambda *runs: send.send_runs(plan_of(tmp_path), [run, *runs], None)


def test_a_job_that_was_taken_without_an_answer_is_found(slurm, sent, tmp_path):
    slurm("squeue", f"77||/other/job.sh\n78|{RUN_ID}|/runs/job.sh\n")
    (submitted,) = sent()
    assert submitted.job_id == "78"
    assert job_of(Run.open(tmp_path / "runs/baseline" / RUN_ID))["id"] == "78"


def test_the_runs_of_an_array_are_found_by_the_first_and_a_comment_may_be_the_users(
    slurm, sent, tmp_path
):
    other = make_run(tmp_path, "20261120-190001-bcdefa")
    slurm("squeue", f"78|course|/runs/baseline/{RUN_ID}/job.sh\n")
    assert [one.job_id for one in sent(other)] == ["78_0", "78_1"]
    assert job_of(other)["id"] == "78_1"


def test_the_scheduler_is_asked_again_with_pauses_that_grow(slurm, monkeypatch):
    slurm("squeue", "slurm_load_jobs error: Unable to contact slurm controller", rc=1)
    pauses = []
    monkeypatch.setattr(unanswered, "time", SimpleNamespace(sleep=pauses.append))
    job = {"scheduler": "slurm", "script": f"/runs/a/{RUN_ID}/job.sh"}
    with pytest.raises(Failed, match="Unable to contact"):
        unanswered.ask_for_number(job)
    assert pauses == sorted(set(pauses))
    assert sum(pauses) >= 60
    assert slurm.calls.read_text().count("squeue") == len(pauses) + 1


def test_what_stays_unknown_is_called_unknown_until_it_is_settled(slurm, sent, tmp_path):
    slurm("squeue", "slurm_load_jobs error: Unable to contact slurm controller", rc=1)
    with pytest.raises(Failed, match=r"timed out.*\nNobody knows yet.*To ask it again: lab queue"):
        sent()
    run = Run.open(tmp_path / "runs/baseline" / RUN_ID)
    assert "id" not in run.record["job"]
    states = JobStates()
    assert states.of(run.record).state == "unknown"
    assert status_of(run.dir, lambda _: "unknown", run.record) == "unknown"
    assert "not known on slurm" in job_words_of()(run.dir, run.record)
    with pytest.raises(LabError, match="has not said whether it has the job"):
        job_to_cancel(run, states)
    slurm("squeue", f"78|RUNNING|{RUN_ID}|0:01|N/A\n")  # which answers both questions
    assert JobStates().of(run.record).state == "running"
    assert job_of(run)["id"] == "78"
    assert "unknown" not in job_of(run)


@pytest.mark.parametrize("key", [{"unknown": "timed out"}, {"sending": True}])
def test_a_scheduler_that_never_got_the_job_has_refused_it(slurm, tmp_path, key):
    late = make_run(tmp_path, sent_s_ago=2 * unanswered.SURE_S, **key)
    late.record["process"] = {"pid_space": pid_space(), "pid": 1, "pid_started": "of another"}
    states = JobStates()
    assert status_of(late.dir, states.of, late.record) == "refused"
    assert "never got it" in job_of(late)["refused"]
    soon = make_run(tmp_path, "20261120-190002-abcdef", "20261120-190002-abcdef", unknown="x")
    assert states.of(soon.record).state == "unknown"


def test_a_job_script_that_runs_settles_its_own_run(slurm, tmp_path):
    run = make_run(tmp_path, index=1, refused="the scheduler never got it")
    (run.dir / "job.id").write_text("78\n")
    (run.dir / "job.over").touch()
    rank.update_job_id(run)
    assert job_of(run)["id"] == "78_1"
    assert "refused" not in job_of(run)
    assert not (run.dir / "job.over").exists()


def test_the_number_of_a_job_that_sends_itself_again_is_not_the_first_one(slurm, tmp_path):
    run = make_run(tmp_path, id="12_3")
    (run.dir / "resubmitted").write_text("Your job asks for 2 nodes.\n4711;cluster\n")
    rank.update_job_id(run)
    assert job_of(run)["id"] == "4711_3"
    assert job_of(run)["earlier_ids"] == ["12_3"]


def test_a_job_of_an_earlier_submission_of_the_run_is_not_taken_for_the_new_one(slurm):
    slurm("squeue", f"78|{RUN_ID}|/runs/job.sh\n")
    job = {"scheduler": "slurm", "script": f"/runs/a/{RUN_ID}/job.sh", "earlier_ids": ["78_2"]}
    assert unanswered.newest_number(job) is None
    slurm("squeue", f"78|{RUN_ID}|/runs/job.sh\n79|{RUN_ID}|/runs/job.sh\n")
    assert unanswered.newest_number(job) == "79"


@pytest.mark.parametrize(
    ("said", "is_unanswered"),
    [
        (TIMED_OUT, True),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", True),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted", True),
        ("qsub: cannot connect to server pbs (errno=111)", True),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", False),
        ("sbatch: error: invalid account; contact support@centre.org", False),
        ("qsub: Job exceeds queue resource limits", False),
    ],
)
def test_plain_refusals_are_told_from_lost_answers(slurm, tmp_path, said, is_unanswered):
    slurm("sbatch", said, rc=1)
    script = tmp_path / "job.sh"
    script.write_text("")
    with pytest.raises(Failed) as raised:
        scheduler_of("slurm").send(REQUEST, script, 1)
    assert isinstance(raised.value, Unanswered) == is_unanswered


def test_a_plain_refusal_is_asked_about_once_and_said(slurm, sent, tmp_path):
    slurm("sbatch", "sbatch: error: Batch job submission failed: Invalid partition", rc=1)
    with pytest.raises(Failed, match=r"Invalid partition\nNo job was queued"):
        sent()
    assert slurm.calls.read_text().count("squeue") == 1
    assert "refused" in job_of(Run.open(tmp_path / "runs/baseline" / RUN_ID))


ANSWERS = {  # to the question for the jobs with a run's id, as each manual documents it
    "slurm": f"78|{RUN_ID}|/r/job.sh\n",
    "gridengine": "<job_info><job_list><JB_job_number>78</JB_job_number>"
    f"<JB_name>wide.{RUN_ID}</JB_name></job_list></job_info>",
    "pbs": json.dumps({"Jobs": {"78[].pbs": {"Output_Path": f"n:/r/{RUN_ID}/array/x.log"}}}),
    "lsf": json.dumps({"RECORDS": [{"JOBID": "78", "JOB_DESCRIPTION": RUN_ID}]}),
    "pjm": f"H,JOB_ID,JOB_NAME\n,78[1],wide.{RUN_ID}\n",
}
ASKED = [one for one in all_schedulers() if one.sent_command]


@pytest.mark.parametrize("one", ASKED, ids=lambda one: one.name)
def test_every_dialect_carries_the_id_of_a_run_and_is_asked_for_it(one, monkeypatch, tmp_path):
    """A scheduler that is added gets a line in ANSWERS, from its manual."""
    run_dir = tmp_path / RUN_ID
    assert RUN_ID in " ".join(one.directives(REQUEST, run_dir, 1, 1))
    assert RUN_ID in " ".join(one.directives(REQUEST, run_dir, 3, 1))
    answer = ANSWERS[one.name]
    monkeypatch.setattr(scheduler, "run_scheduler_command", lambda *_, **__: answer)
    assert one.numbers_sent_for(RUN_ID) == ["78"]
    assert one.numbers_sent_for("20261120-190009-abcdef") == []


def test_an_option_of_the_users_own_stays(tmp_path):
    request = JobRequest(**vars(REQUEST) | {"options": ["--comment=course"]})
    text = " ".join(scheduler_of("slurm").directives(request, tmp_path / RUN_ID, 1, 1))
    assert text.count("--comment") == 1
    assert "--comment=course" in text


TREE = "a" * 40


def test_a_repeat_sends_nothing_while_the_first_job_is_unknown(slurm, tmp_path, monkeypatch):
    slurm("squeue", "Unable to contact slurm controller", rc=1)
    make_run(tmp_path, unknown="timed out", program=["-m", "labrig", "rank", "--", "true"])
    record = tmp_path / "runs/baseline" / RUN_ID / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"code": {"tree": TREE}}))
    monkeypatch.setattr(existing_runs, "run_roots", lambda _: [tmp_path / "runs"])
    plan = SimpleNamespace(project=None, command=["-m", "labrig", "rank", "--", "true"])
    with pytest.raises(Refused, match="Nothing was submitted"):
        existing_runs.refuse_unknown_command(plan, TREE)
    plan.command = [*plan.command, "other"]
    existing_runs.refuse_unknown_command(plan, TREE)


# ---- the scheduler outranks the record while it holds the job; ends are remembered


def end(run, status):
    for folder in (run.dir, run.dir / "attempts/1"):
        folder.mkdir(parents=True, exist_ok=True)
    (run.dir / "attempts/1/start.json").write_text('{"host": "c1"}')
    (run.dir / "attempts/1/end.json").write_text(json.dumps({"format": 1, "status": status}))
    (run.dir / "summary.json").write_text(json.dumps({"format": 1, "status": status}))


@pytest.mark.parametrize(
    ("ended", "state", "expected"),
    [
        ("failed", "PENDING", "queued"),
        ("failed", "RUNNING", "running"),
        ("interrupted", "RUNNING", "running"),  # the job script has removed `requeue` already
        ("finished", "RUNNING", "finished"),
        ("failed", None, "failed"),
    ],
)
def test_a_run_whose_job_is_there_has_not_ended(
    slurm, tmp_path, monkeypatch, ended, state, expected
):
    slurm("squeue", f"78|{state}|BeginTime|0:00|N/A\n" if state else "")
    run = make_run(tmp_path, id="78")
    end(run, ended)
    states = JobStates()
    word = states.of(run.record)
    assert status_of(run.dir, lambda _: word and word.state, run.record) == expected
    monkeypatch.setattr(queue, "run_roots", lambda _: [tmp_path / "runs"])
    listed = [job.run_id for job in queue.queue(Project(tmp_path, "myproj"))]
    assert listed == ([RUN_ID] if expected in ("queued", "running") else [])


def test_an_end_that_was_seen_once_is_remembered(slurm, tmp_path):
    run = make_run(tmp_path, id="78")
    states = JobStates()

    def state_of(record):
        state = states.of(record)
        return state and state.state

    assert status_of(run.dir, state_of, run.record) == "lost"
    slurm("squeue", "Unable to contact slurm controller", rc=1)
    states = JobStates()
    assert status_of(run.dir, state_of, run.record) == "lost"
    (run.dir / "cancelled").touch()
    assert status_of(run.dir, state_of, run.record) == "cancelled"
    slurm("squeue", "78|RUNNING|None|0:01|N/A\n")  # somebody has queued it again
    assert JobStates().of(run.record).state == "running"
    assert not (run.dir / "job.over").exists()


def test_another_cluster_on_the_same_disk_ends_nothing(slurm, tmp_path):
    run = make_run(tmp_path, id="78")
    run.record["host"] = "login.of-another-cluster"
    assert JobStates().of(run.record) is None
    assert not (run.dir / "job.over").exists()


def test_a_cancelled_run_whose_job_had_asked_for_more_does_not_stay_queued(tmp_path):
    run = make_run(tmp_path, id="78")
    end(run, "interrupted")
    (run.dir / "requeue").touch()
    assert status_of(run.dir, lambda _: "unknown", run.record) == "queued"
    (run.dir / "cancelled").touch()
    assert status_of(run.dir, lambda _: "unknown", run.record) == "interrupted"


def test_a_scheduler_in_maintenance_is_one_line(slurm, tmp_path, monkeypatch, capsys):
    slurm("squeue", "Unable to contact slurm controller", rc=1)
    for n in range(5):
        run_id = f"2026112{n}-190001-abcdef"
        make_run(tmp_path, run_id, run_id, id=str(n))
    monkeypatch.setattr(queue, "run_roots", lambda _: [tmp_path / "runs"])
    monkeypatch.setattr(queue, "typical_waits", lambda _: [])
    assert len(queue.print_queue(Project(tmp_path, "myproj"))) == 5
    printed = capsys.readouterr().out
    assert printed.count("Unable to contact") == 1
    assert "What follows is what was known before" in printed
    assert slurm.calls.read_text().count("squeue") == 1


@pytest.mark.parametrize(
    ("statuses", "said", "n_submitted"),
    [
        (["interrupted"], "to continue it instead: lab submit run-0", 1),
        (["interrupted", "interrupted"], "like 1 more; to continue it", 2),
        (["queued", "interrupted"], "1 of 2 runs exist already", 1),
        (["queued"], "is queued; submitting another", 1),
        (["unknown", "finished"], "nothing to submit", 0),
    ],
)
def test_what_exists_of_a_submission_is_said(monkeypatch, capsys, statuses, said, n_submitted):
    existing = {
        str(n): existing_runs.ExistingRun(f"run-{n}", status) for n, status in enumerate(statuses)
    }
    monkeypatch.setattr(existing_runs, "existing_runs", lambda *_: existing)
    monkeypatch.setattr(existing_runs, "run_identity", lambda text: text)
    monkeypatch.setattr(existing_runs, "run_roots", lambda _: [])
    points = [SimpleNamespace(yaml=str(n)) for n in range(len(statuses))]
    plan = SimpleNamespace(project=None, points=points)
    assert len(existing_runs.points_to_submit(plan, "t")) == n_submitted
    assert said in capsys.readouterr().err


def test_a_command_with_the_settings_of_a_training_is_no_training(slurm, tmp_path):
    for name, job in (("1", {}), ("2", {"program": ["-m", "labrig", "rank", "--", "true"]})):
        run = make_run(tmp_path, RUN_ID[:-1] + name, id="77", **job)
        run.update(code={"tree": TREE})
        (run.dir / "config.yaml").write_text(f"paths: {{data: []}}\nseed: {name}\n")
        end(run, "finished")
    (existing,) = existing_runs.existing_runs([tmp_path / "runs"], TREE).values()
    assert existing == existing_runs.ExistingRun(RUN_ID[:-1] + "1", "finished")


def test_a_single_point_that_is_unknown_is_refused(monkeypatch):
    existing = {"0": existing_runs.ExistingRun("run-0", "unknown")}
    monkeypatch.setattr(existing_runs, "existing_runs", lambda *_: existing)
    monkeypatch.setattr(existing_runs, "run_identity", lambda text: text)
    monkeypatch.setattr(existing_runs, "run_roots", lambda _: [])
    plan = SimpleNamespace(project=None, points=[SimpleNamespace(yaml="0")])
    with pytest.raises(Refused, match=r"run-0 is the same.*Nothing was submitted"):
        existing_runs.points_to_submit(plan, "t")


def test_a_chunk_of_a_chain_that_was_taken_without_an_answer_is_found(slurm, tmp_path):
    run = make_run(tmp_path, earlier_ids=["78"])
    slurm("squeue", f"78|{RUN_ID}|/r/job.sh\n79|{RUN_ID}|/r/chunks/2.sh\n")
    script = run.dir / "job.sh"
    script.write_text("")
    one = scheduler_of("slurm")
    assert send.send_or_find(one, REQUEST, script, [run.record["job"]]) == ["79"]
