"""Messages about jobs, sites and remote hosts: each says what was found and what to do."""

import subprocess
from types import SimpleNamespace

import pytest
from labrig.cluster.doctor import command as doctor_nodes
from labrig.cluster.image import build as image_build
from labrig.cluster.job import rank
from labrig.cluster.schedulers import scheduler_of
from labrig.cluster.schedulers.formats import parse_megabytes
from labrig.cluster.sites import init as site_init
from labrig.cluster.sites import verify as site_verify
from labrig.cluster.submit import (
    check_frozen,
    over_files,
    plan,
    prefetch,
    reproduce,
    resume_as_job,
    send,
    shell,
    submit,
)
from labrig.cluster.submit.command import split_command
from labrig.cluster.watch import logs, top_in_job
from labrig.cluster.watch import sync as sync_mlflow
from labrig.cluster.watch import sync as sync_wandb
from labrig.config import defaults_list, trial_nodes
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


def test_checks_of_nodes_without_an_end(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor_nodes, "WAIT_S", -60)
    with pytest.raises(Failed, match=r"the job is not over after -1 minutes.*Its log: lab logs"):
        doctor_nodes.wait_for_reports(tmp_path, 2, 1)
    monkeypatch.setattr(site_verify, "WAIT_S", -60)
    monkeypatch.setattr(site_verify, "status_of", as_given("queued"))
    with pytest.raises(Failed, match=r"It stays in the queue; type the same command again later"):
        site_verify.await_end(SimpleNamespace(dir=tmp_path), 1)
    submitted = SimpleNamespace(job_id="7", log="job.log", run_dir=str(tmp_path))
    asked = SimpleNamespace(request=SimpleNamespace(n_tasks=2), site=SimpleNamespace(name="s"))
    monkeypatch.setattr(plan, "plan_program", as_given(asked))
    monkeypatch.setattr(submit, "submit_plan", as_given([submitted]))
    monkeypatch.setattr(doctor_nodes, "poll_interval_s", as_given(1))
    monkeypatch.setattr(doctor_nodes, "wait_for_reports", as_given([]))
    with pytest.raises(Failed, match=r"the job ended without a result. Read its log: job.log"):
        doctor_nodes.examine_nodes(None, [])


def test_images_that_cannot_be_made(monkeypatch, tmp_path):
    with pytest.raises(Failed, match=r"cannot be written: (?s:.*)Free space, then again"):
        image_build.pack_environment(tmp_path / "gone", tmp_path / "a.tar")
    point = SimpleNamespace(config=None, choices={"site": "s"})
    image = SimpleNamespace(form="pyxis", file=tmp_path / "a.sqsh")
    monkeypatch.setattr(image_build, "points_of", as_given([point]))
    monkeypatch.setattr(image_build, "plain_values", as_given({"site": {}, "paths": {}}))
    for name, value in {"load_site": None, "image_of": image, "require_lock": None}.items():
        monkeypatch.setattr(image_build, name, as_given(value))
    monkeypatch.setattr(image_build, "pyxis_command", as_given("pyxis makes images within a job"))
    with pytest.raises(Failed, match=r"pyxis makes images within a job"):
        image_build.build_command(None, [])


def test_what_is_typed_after_submit(monkeypatch):
    with pytest.raises(
        LabError, match=r"job.mem=lots is not an amount of memory per node. Write 64G or 500M"
    ):
        parse_megabytes("lots")
    with pytest.raises(LabError, match=r"there is no command after --. For example: lab submit"):
        split_command(["job.gpus=0", "--"])
    with pytest.raises(
        LabError, match=r"job.idle_min=0, but it must be more than 0 minutes. To let jobs idle"
    ):
        plan._check_idle_minutes(0)
    monkeypatch.setattr(plan, "trial_names", as_given([]))
    with pytest.raises(LabError, match=r"this project has no trial.*Make one: lab trials new NAME"):
        plan._any_trial(None)
    files = over_files.OverFiles(["*.wav"])
    monkeypatch.setattr(over_files, "check_words", as_given(None))
    monkeypatch.setattr(over_files, "points_of", as_given([1, 2]))
    with pytest.raises(
        LabError, match=r"--each takes one value of each setting. Call it once for each"
    ):
        over_files.plan_over_files(None, [], ["ls"], files)
    monkeypatch.setattr(over_files, "points_of", as_given([1]))
    for name, value in {"find_files": [], "run_roots": [], "files_to_submit": ["a.wav"]}.items():
        monkeypatch.setattr(over_files, name, as_given(value))
    wide = SimpleNamespace(request=SimpleNamespace(n_tasks=2))
    monkeypatch.setattr(over_files, "plan_of", as_given(wide))
    with pytest.raises(
        LabError, match=r"--each runs one process in each task. Leave out job.nodes"
    ):
        over_files.plan_over_files(None, [], ["ls"], files)


def test_what_cannot_be_fetched_for_a_node(monkeypatch, tmp_path):
    project = SimpleNamespace(package="myproj", root=tmp_path)
    monkeypatch.setattr(prefetch.subprocess, "run", ended(1, "lab: a.ckpt cannot be fetched"))
    with pytest.raises(Failed, match=r"^a.ckpt cannot be fetched$"):
        prefetch.fetch_initial_weights(project, "hf:org/model", {})
    point = SimpleNamespace(overrides=[], config=OmegaConf.create({}))
    monkeypatch.setattr(prefetch, "compose", as_given(point))
    answers = {"site_of_login_node": None, "places_of": {}, "network_cutter": []}
    for name, value in {**answers, "online_environment": {}}.items():
        monkeypatch.setattr(prefetch, name, as_given(value))
    with pytest.raises(
        Failed, match=r"lab check fails here, with the network \(exit code 1\). Fix that first"
    ):
        prefetch.prefetch_command(project, ["trial=baseline"])
    codes = iter([0, 1])
    monkeypatch.setattr(
        prefetch.subprocess, "run", lambda *_, **__: ended(next(codes), "no route")()
    )
    with pytest.raises(
        Failed, match=r"without the network the check fails(?s:.*)no route\nFetch by hand"
    ):
        prefetch.prefetch_command(project, ["trial=baseline"])


def test_commands_of_jobs(monkeypatch):
    monkeypatch.setattr(rank, "STOP", SimpleNamespace(listen=as_given(None)))
    monkeypatch.delenv("LAB_RUN_DIR", raising=False)
    with pytest.raises(
        LabError, match=r"lab rank is started by a job script only. To train here: lab train"
    ):
        rank.rank_command(None, [])
    monkeypatch.setattr(rank.Inputs, "read", as_given(None))
    monkeypatch.setattr(rank, "join_command", as_given(None))
    with pytest.raises(Failed, match=r"cannot start '/no/such': No such file.*Is it on this node"):
        rank.run_command(None, RUN, ["/no/such"], SimpleNamespace(rank=1))
    monkeypatch.setattr(
        reproduce, "find_run", as_given(SimpleNamespace(id="one", trial="commands"))
    )
    monkeypatch.setattr(reproduce, "TRIAL_OF_COMMANDS", "commands")
    monkeypatch.setattr(reproduce, "run_roots", as_given([]))
    with pytest.raises(
        LabError, match=r"one ran a command, not a training. Submit the command again"
    ):
        reproduce.reproduce_command(None, ["one", "site=slurm"])


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
    monkeypatch.setattr(submit, "freeze_code", as_given({"commit": None, "reason": "no git"}))
    with pytest.raises(
        Refused, match=r"the code cannot be recorded: no git. Nothing was submitted"
    ):
        submit._freeze(None, tmp_path, point, allow=False)
    plan = SimpleNamespace(runs=tmp_path, site=SimpleNamespace(scheduler="slurm"))
    with pytest.raises(Failed, match=r"the frozen code cannot be written to .*Is the disk full"):
        submit.pack_code(plan, {"commit": "1", "prefix": ""}, tmp_path / "gone")


def test_logs_uploads_and_gpus_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(logs, "status_of", as_given("failed"))
    monkeypatch.setattr(logs, "job_state_of", as_given(None))
    monkeypatch.setattr(logs, "how_job_ended", as_given("out of memory"))
    with pytest.raises(
        LabError,
        match=r"one has no log, and its job is over: out of memory. See: lab runs show one",
    ):
        raise logs.no_log(RUN)
    monkeypatch.setattr("labrig.errors.find_spec", as_given(None))
    with pytest.raises(
        LabError, match="lab sync needs the package mlflow: make add PACKAGE=mlflow"
    ):
        sync_mlflow.upload_mlflow(tmp_path)
    monkeypatch.setattr(sync_wandb, "find_wandb", as_given(None))
    with pytest.raises(
        LabError, match=r"the wandb command is not installed: make add PACKAGE=wandb"
    ):
        sync_wandb.upload_wandb([tmp_path])
    states = SimpleNamespace(of=as_given(None))
    monkeypatch.setattr(top_in_job, "JobStates", as_given(states))
    with pytest.raises(
        LabError, match=r"one uses no GPU now: its job is over. See: lab runs show one"
    ):
        top_in_job.top_in_job(None, RUN, watch=False)
    states.of = as_given(SimpleNamespace(state="running"))
    monkeypatch.setattr(top_in_job, "step_command", as_given(["sleep", "9"]))
    monkeypatch.setattr(top_in_job, "host_of", as_given("n1"))

    def silent(*_, **__):
        raise subprocess.TimeoutExpired("srun", 60)

    monkeypatch.setattr(top_in_job.subprocess, "run", silent)
    with pytest.raises(Failed, match=r"the nodes of job 7 do not answer within .*lab queue"):
        top_in_job.top_in_job(SimpleNamespace(root=tmp_path), RUN, watch=False)


def test_files_of_the_configuration(monkeypatch, tmp_path):
    with pytest.raises(LabError, match=r"model._target_ must be a dotted name, but it is 3"):
        check_target("model", {"_target_": 3}, {}, "a.yaml", "wide")
    project = SimpleNamespace(source=tmp_path)
    monkeypatch.setattr(trial_nodes, "trial_names", as_given(["Wide"]))
    with pytest.raises(LabError, match=r"trial name 'Wide' must be lower-case letters"):
        trial_nodes.trial_file(project, "Wide")

    loaded = SimpleNamespace(config=OmegaConf.create([1]))
    loader = SimpleNamespace(repository=SimpleNamespace(load_config=as_given(loaded)))
    monkeypatch.setattr(defaults_list, "config_path", as_given("conf/a.yaml"))
    with pytest.raises(
        LabError, match=r"conf/a.yaml must hold `key: value` lines, but it holds a list"
    ):
        defaults_list.config_files(loader, [SimpleNamespace(config_path="a")], project)


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
