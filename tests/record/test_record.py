"""A run's record is whole and tells what ran; its status follows from what its processes left."""

import json
import os
import signal
import time

import pytest
from labrig import errors
from labrig.project import Project, say_once
from labrig.record.files.metrics_file import MetricsLog, read_metrics
from labrig.record.read.run import Run
from labrig.record.read.status import status_of
from labrig.record.write.begin import begin_attempt
from record_package import PACKAGE, create, git, make_project, train


@pytest.fixture
def project(tmp_path):
    say_once.cache_clear()
    return make_project(tmp_path / "project")


@pytest.mark.slow
def test_a_new_run_is_recorded(project):
    (project.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    run = create(project, why="wider is better", parent="20260101-000000-abcdef")
    record = json.loads((run.dir / "run.json").read_bytes())
    assert run.dir == project.root / "runs/baseline" / run.id
    assert record == run.record == Run.open(run.dir).record
    assert (record["why"], record["parent"]) == ("wider is better", "20260101-000000-abcdef")
    assert record["code"]["dirty"]
    assert record["code"]["n_untracked"] == 1
    assert git(project.root, "show", f"{record['code']['ref']}:src/{PACKAGE}/new.py") == "x = 1"
    trial = f"{record['code']['commit']}:src/{PACKAGE}/trials/baseline"
    assert record["code"]["trial_tree"] == git(project.root, "rev-parse", trial)
    assert record["command"]["overrides"] == ["model.width=32"]
    assert (run.dir / "config.yaml").read_text().startswith("seed: 0")
    assert (run.dir / "overrides.txt").read_text() == "model.width=32\n"
    assert "pytest==" in (run.dir / "env.txt").read_text()
    assert run.checkpoints.is_dir()
    assert (run.dir / "run.json").stat().st_size < 32_000


@pytest.mark.slow
def test_runs_of_one_second_have_their_own_directories(project):
    runs = [create(project) for _ in range(5)]
    assert len({run.dir for run in runs}) == 5
    assert len({(run.dir / "code.bundle").stat().st_ino for run in runs}) == 1  # one bundle, linked


@pytest.mark.slow
def test_runs_of_one_code_say_once_which_it_is(project, capsys):
    """As those of `lab submit seed=5,6`."""
    changed = project.root / "src" / PACKAGE / "new.py"
    for text, said in (("x = 1\n", 1), ("x = 1\n", 0), ("x = 2\n", 1)):
        changed.write_text(text)
        for seed, lines in ((5, said), (6, 0)):
            create(project, seed=seed)
            assert capsys.readouterr().err.count("lab: code ") == lines


@pytest.mark.slow
def test_variants_and_checkpoints_elsewhere(project, tmp_path):
    run = create(project, trial="wide/lowlr", checkpoints=tmp_path / "scratch")
    assert run.dir.parent.name == "wide+lowlr"
    assert run.trial == "wide/lowlr"
    assert run.checkpoints == tmp_path / "scratch/wide+lowlr" / run.id
    assert run.record["code"]["trial_tree"] == git(
        project.root, "rev-parse", f"HEAD:src/{PACKAGE}/trials/wide"
    )


def test_without_git_it_says_so_and_continues(tmp_path, capsys):
    project = Project(tmp_path, PACKAGE)
    run = create(project)
    assert "commit" not in run.record["code"]
    assert "not a git repository" in run.record["code"]["reason"]
    assert "the code is NOT recorded" in capsys.readouterr().err
    assert begin_attempt(run, project).n == 1


@pytest.mark.slow
def test_a_token_on_the_command_line_is_refused(project):
    token = "hf_" + "Ab3" * 12
    for place in (
        {"argv": ["lab", token]},
        {"overrides": [f"logger.key={token}"]},
        {"config_yaml": f"k: {token}"},
    ):
        with pytest.raises(errors.Refused, match="looks like a Hugging Face token"):
            create(project, **place)
    assert not (project.root / "runs").exists()
    assert create(project, argv=["lab", token], allow=True).id


@pytest.mark.slow
def test_uncommitted_changes_can_be_refused(project):
    assert create(project, dirty="refuse").id
    (project.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    with pytest.raises(errors.Refused, match="not committed: 1 file\\. Type"):
        create(project, dirty="refuse")


def test_variables_are_recorded_by_name_only_if_harmless(project, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("TORCH_TOKEN", "hf_" + "Ab3" * 12)
    variables = create(project).record["env"]["variables"]
    assert variables["OMP_NUM_THREADS"] == "3"
    assert not variables.keys() & {"WANDB_API_KEY", "TORCH_TOKEN", "HOME"}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["finished", "failed", "interrupted"])
def test_a_run_ends(project, ending):
    error = ValueError("width must be even\nsecond line") if ending == "failed" else None
    run = train(project, ending, exception=error)
    summary = json.loads((run.dir / "summary.json").read_bytes())
    assert summary["status"] == status_of(run.dir) == ending
    assert summary["metrics"] == {"val/loss": 0.25}
    assert summary["exception"] == (error and "ValueError: width must be even")
    end = json.loads((run.dir / "attempts/1/end.json").read_bytes())
    assert end["exit_code"] == {"finished": 0, "failed": 1, "interrupted": 130}[ending]
    assert end["peak_memory_bytes"] > 1e6
    (run.dir / "summary.json").unlink()  # killed between the two files
    assert status_of(run.dir) == ending


@pytest.mark.slow
def test_a_second_attempt(project, capsys):
    run = train(project, "interrupted")
    (project.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    attempt = begin_attempt(Run.open(run.dir), project, overrides=["trainer.max_epochs=40"])
    assert (attempt.n, status_of(run.dir)) == (2, "running")
    start = json.loads((run.dir / "attempts/2/start.json").read_bytes())
    assert start["code"]["commit"] != run.record["code"]["commit"]
    assert "the code differs" in capsys.readouterr().err
    assert (run.dir / "attempts/2/code.bundle").exists()
    assert start["overrides"] == ["trainer.max_epochs=40"]
    attempt.end("finished", {"test/acc": 0.98}, gpu_seconds=7)
    summary = json.loads((run.dir / "summary.json").read_bytes())
    assert summary["metrics"] == {"val/loss": 0.25, "test/acc": 0.98}
    assert (summary["n_attempts"], summary["gpu_seconds"]) == (2, 7)


@pytest.mark.slow
def test_a_running_run_is_not_begun_again(project):
    run = create(project)
    attempt = begin_attempt(run, project)
    with pytest.raises(errors.LabError, match="is running on this machine already"):
        begin_attempt(Run.open(run.dir), project)
    attempt.end("interrupted")
    assert begin_attempt(Run.open(run.dir), project).n == 2


@pytest.mark.slow
def test_what_was_allowed_stays_allowed(project):
    (project.root / "src" / PACKAGE / "key.py").write_text("key = 'hf_" + "Ab3" * 12 + "'\n")
    run = create(project, allow=True)
    begin_attempt(run, project).end("interrupted")
    assert begin_attempt(Run.open(run.dir), project).n == 2


@pytest.mark.slow
def test_another_environment_is_reported_or_refused(project, capsys):
    run = create(project)
    with open(run.dir / "env.txt", "a") as file:
        file.write("gone==1.0\n")
    begin_attempt(Run.open(run.dir), project)
    assert "package.gone: 1.0 -> absent" in capsys.readouterr().err
    start = json.loads((run.dir / "attempts/1/start.json").read_bytes())
    assert start["environment_differences"] == ["package.gone: 1.0 -> absent"]
    with pytest.raises(errors.Refused, match=r"package\.gone"):
        begin_attempt(Run.open(run.dir), project, env_policy="refuse")


@pytest.mark.slow
def test_status_of_a_process_that_died(project):
    child = os.fork()
    if not child:
        begin_attempt(create(project), project)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    directory = next((project.root / "runs/baseline").iterdir())
    assert status_of(directory) == "lost"
    assert begin_attempt(Run.open(directory), project).n == 2
    assert status_of(directory) == "running"


@pytest.mark.slow
def test_status_on_another_machine_follows_the_heartbeat(project):
    run = create(project)
    begin_attempt(run, project)
    start = json.loads((run.dir / "attempts/1/start.json").read_bytes())
    (run.dir / "attempts/1/start.json").write_text(
        json.dumps(start | {"pid_space": "elsewhere", "pid": 1})
    )
    assert status_of(run.dir) == "running"
    old = time.time() - 700
    os.utime(run.dir / "attempts/1/heartbeat", (old, old))
    assert status_of(run.dir) == "lost"


@pytest.mark.slow
def test_status_of_a_job_follows_the_scheduler(project):
    run = create(project)
    run.update(job={"id": "7"})
    assert (
        status_of(run.dir) == status_of(run.dir, job_state_of=lambda record: "unknown") == "queued"
    )
    assert status_of(run.dir, job_state_of=lambda record: "running") == "running"
    assert status_of(run.dir, job_state_of=lambda record: None) == "lost"
    attempt = begin_attempt(run, project)
    assert (
        status_of(
            run.dir, job_state_of=lambda record: "queued" if record["job"]["id"] == "7" else None
        )
        == "queued"
    )
    assert status_of(run.dir, job_state_of=lambda record: "unknown") == "running"
    assert status_of(run.dir, job_state_of=lambda record: None) == "lost"
    attempt.end("interrupted")
    assert status_of(run.dir, job_state_of=lambda record: None) == "interrupted"
    assert status_of(run.dir, job_state_of=lambda record: "queued") == "queued"
    (run.dir / "requeue").touch()  # preempted, and sent back to the queue
    assert (
        status_of(run.dir, job_state_of=lambda record: "queued") == status_of(run.dir) == "queued"
    )
    assert status_of(run.dir, job_state_of=lambda record: None) == "interrupted"


def test_metrics_of_overlapping_attempts_and_cut_lines(tmp_path):
    first = MetricsLog(tmp_path, 1)
    for step in (10, 20, 30):
        first.append(step, 0, {"train/loss": step})
    first.append(20, 0, {"val/loss": 2.0})
    first.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 40, "epoch": 0, "att')
    second = MetricsLog(tmp_path, 2)
    second.append(30, 0, {"train/loss": float("nan")})
    second.append(40, 0, {"train/loss": float("-inf")})
    second.close()
    rows = read_metrics(tmp_path)
    assert [(row["step"], row["attempt"]) for row in rows] == [
        (10, 1),
        (20, 1),
        (20, 1),
        (30, 2),
        (40, 2),
    ]
    assert str(rows[3]["train/loss"]) == "nan"
    assert rows[4]["train/loss"] == float("-inf")
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        if line.endswith("}"):
            json.loads(line, parse_constant=pytest.fail)  # NaN is no JSON


@pytest.mark.slow
def test_records_of_other_formats(project):
    run = train(project)
    path = run.dir / "run.json"
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(errors.LabError, match=r"it has format 99, and .* up to 1.* copier update"):
        Run.open(run.dir)
    path.write_text(json.dumps({key: record[key] for key in record if key != "format"}))
    with pytest.raises(errors.LabError, match="a labrig from before its first release wrote it"):
        Run.open(run.dir)
    del record["who"]
    path.write_text(json.dumps(record))
    with pytest.raises(errors.LabError, match="it has no 'who'"):
        Run.open(run.dir)


def test_frozen_code_must_be_imported_from_the_snapshot(project, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_FROZEN", str(tmp_path))
    with pytest.raises(errors.Refused, match="must use the frozen code"):
        create(project)
