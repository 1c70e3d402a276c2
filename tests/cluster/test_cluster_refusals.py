"""What is refused before a job is queued."""

from types import SimpleNamespace

import pytest
from labrig.cluster.schedulers import scheduler_of
from labrig.cluster.sites import init as site_init
from labrig.cluster.submit import check_frozen, resume_as_job, send, shell, submit
from labrig.config import hydra_answers
from labrig.config import hydra_loader as trial_nodes
from labrig.config.check_target import check_target
from labrig.errors import Failed, LabError, Refused
from omegaconf import OmegaConf
from test_unanswered import REQUEST

RUN = SimpleNamespace(id="one", dir=None, record={"job": {"id": "7", "scheduler": "slurm"}})


def ended(code, stderr=""):
    return lambda *_, **__: SimpleNamespace(returncode=code, stdout="", stderr=stderr)


def refuses(*_, **__):
    raise LabError("no such account")


def as_given(value):
    return lambda *_, **__: value


def test_frozen_code_that_fails_its_check(monkeypatch, tmp_path):
    code = {"prefix": "", "commit": "1" * 40}
    project = SimpleNamespace(root=tmp_path, package="myproj")
    monkeypatch.setattr(check_frozen.subprocess, "run", ended(3, "killed"))
    with pytest.raises(
        Failed, match=r"ended with code 3:\nkilled\nTo see it without a job: lab check"
    ):
        check_frozen.run_check(project, code, tmp_path, [])
    result = SimpleNamespace(error=f"{tmp_path}/a.py:1: no", wanted_files=[])
    monkeypatch.setattr(check_frozen, "run_check", as_given(result))
    with pytest.raises(
        LabError, match=r"the frozen code fails its check: <snapshot>/a.py:1: no\nCorrect it, then"
    ):
        check_frozen.check_frozen(project, code, tmp_path, SimpleNamespace(overrides=[]))
    (tmp_path / "a.yaml").touch()
    monkeypatch.setattr(check_frozen, "left_out_reason", as_given("git ignores it"))
    with pytest.raises(
        Refused,
        match=r"the snapshot lacks files(?s:.*)a.yaml: git ignores it\nTo record .*: git add",
    ):
        check_frozen.refuse_missing_files(project, code, tmp_path / "frozen", ["a.yaml"])
    with pytest.raises(Refused, match=r"two checkpoints need .* MB, but the disk .*\nMake room"):
        check_frozen.check_room(tmp_path / "checkpoints", 10**18)


def test_a_shell_inside_a_job(monkeypatch):
    site = SimpleNamespace(scheduler="slurm")
    monkeypatch.setattr(
        shell, "plan_submission", as_given(SimpleNamespace(site=site, request=None))
    )
    scheduler = SimpleNamespace(shell_words=as_given(["srun"]))
    monkeypatch.setattr(shell, "scheduler_of", as_given(scheduler))
    monkeypatch.setattr(shell, "current_job_id", as_given("7"))
    with pytest.raises(Refused, match=r"this shell is inside job 7 already. Leave it first"):
        shell.shell_command(None, [])


def test_a_scheduler_that_refuses_or_is_missing(monkeypatch, tmp_path):
    asked = SimpleNamespace(
        site=SimpleNamespace(scheduler="slurm", name="s"), request=REQUEST, throttle=0, after=None
    )
    run = SimpleNamespace(id="1", dir=tmp_path, record={}, update=as_given(None))
    monkeypatch.setattr(send, "write_script", as_given("job.sh"))
    monkeypatch.setattr(send, "sent_record", as_given({}))
    monkeypatch.setattr(send, "scheduler_of", as_given(SimpleNamespace(send=refuses)))
    with pytest.raises(
        LabError,
        match=r"no such account\nNo job was queued. The record and the script are kept: job.sh",
    ):
        send.send_runs(asked, [run], None)
    monkeypatch.setattr(site_init.shutil, "which", as_given(None))
    with pytest.raises(LabError, match=r"no scheduler is installed here. Log in to the cluster"):
        site_init.installed_schedulers()


def test_code_that_cannot_be_frozen_for_a_job(monkeypatch, tmp_path):
    points = [SimpleNamespace(trial=name) for name in "ab"]
    commits = iter("12")
    monkeypatch.setattr(submit, "_freeze", lambda *_: {"commit": next(commits)})
    with pytest.raises(
        Refused, match=r"the code changed while it was being recorded.*run the same command again"
    ):
        submit.freeze_points(None, tmp_path, points, allow=False)
    monkeypatch.undo()
    rules = SimpleNamespace(dirty="snapshot", max_file_mb=1)
    point = SimpleNamespace(trial="a", config=SimpleNamespace(record=rules))
    monkeypatch.setattr(submit, "freeze_code", as_given({"reason": "no git"}))
    with pytest.raises(
        Refused, match=r"the code cannot be recorded: no git. Nothing was submitted"
    ):
        submit._freeze(None, tmp_path, point, allow=False)
    plan = SimpleNamespace(runs=tmp_path, site=SimpleNamespace(scheduler="slurm"))
    with pytest.raises(Failed, match=r"the frozen code cannot be written to .*Is the disk full"):
        submit.pack_code(plan, {"commit": "1", "prefix": ""}, tmp_path / "gone")


def test_files_of_the_configuration(monkeypatch, tmp_path):
    with pytest.raises(LabError, match=r"model._target_ must be a dotted name, but it is 3"):
        check_target("model", {"_target_": 3}, {}, "a.yaml", "wide")
    project = SimpleNamespace(source=tmp_path)
    monkeypatch.setattr(trial_nodes, "trial_names", as_given(["Wide"]))
    with pytest.raises(LabError, match=r"trial name 'Wide' must be lower-case letters"):
        trial_nodes.trial_file(project, "Wide")

    loaded = SimpleNamespace(config=OmegaConf.create([1]))
    loader = SimpleNamespace(repository=SimpleNamespace(load_config=as_given(loaded)))
    monkeypatch.setattr(hydra_answers, "config_path", as_given("conf/a.yaml"))
    with pytest.raises(
        LabError, match=r"conf/a.yaml must hold `key: value` lines, but it holds a list"
    ):
        hydra_answers.config_files(loader, [SimpleNamespace(config_path="a")], project)


def test_runs_that_cannot_be_continued_as_a_job(monkeypatch, tmp_path):
    with pytest.raises(LabError, match=r"a and b are 2 words without a setting. Name one run"):
        resume_as_job.named_run(["a", "b", "job.gpus=1"])
    monkeypatch.setattr(resume_as_job, "trial_names", as_given(["wide"]))
    with pytest.raises(LabError, match=r"'wide' is a trial, not a run. Type: lab submit trial"):
        resume_as_job.plan_resumption(None, ["wide"])
    monkeypatch.setattr(resume_as_job, "run_roots", as_given([]))
    run = SimpleNamespace(id="one", trial="wide", dir=tmp_path, checkpoints=tmp_path, record={})
    monkeypatch.setattr(resume_as_job, "find_run", as_given(run))
    monkeypatch.setattr(resume_as_job, "job_state_of", as_given(None))
    monkeypatch.setattr(resume_as_job, "status_of", as_given("running"))
    with pytest.raises(Refused, match=r"one is running; nothing was submitted. To see its job"):
        resume_as_job.plan_resumption(None, ["one"])
    monkeypatch.setattr(resume_as_job, "status_of", as_given("interrupted"))
    monkeypatch.setattr(resume_as_job, "is_complete", as_given(True))
    with pytest.raises(Refused, match=r"one is finished; nothing is left to do"):
        resume_as_job.plan_resumption(None, ["one"])
    monkeypatch.setattr(resume_as_job, "is_complete", as_given(False))
    stretches = as_given([SimpleNamespace(code={})])
    monkeypatch.setattr(resume_as_job, "stretches_of", stretches)
    with pytest.raises(LabError, match=r"the code of one was not recorded. To continue it"):
        resume_as_job.plan_resumption(None, ["one"])
    monkeypatch.setattr(resume_as_job, "attempt_numbers", as_given([1]))
    with pytest.raises(LabError, match=r"one has begun, so it can come after no other run. Leave"):
        resume_as_job.plan_resumption(None, ["one", "after=two"])
    run.trial = "command"
    with pytest.raises(LabError, match=r"one ran a command, not a training"):
        resume_as_job.check_resumable(run)


def test_a_machine_without_a_scheduler_knows_no_job_by_its_run():
    with pytest.raises(Failed, match=r"local cannot be asked for the job of a run. Look yourself"):
        scheduler_of("local").numbers_sent_for("20261120-190003-abcdef")
