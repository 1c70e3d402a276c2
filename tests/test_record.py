"""A run's record is whole and tells what ran; its status is worked out from what its processes left. First comes a
small project in git, without training, on which the tests of the commands stand too."""

import json
import os
import signal
import subprocess
import time

import pytest
from myproj.lab import errors
from myproj.lab.project import Project
from myproj.lab.record.metrics_file import MetricsLog, read_metrics
from myproj.lab.record.run import Run
from myproj.lab.record.status import status_of

PACKAGE = "myproj"


def git(folder, *arguments):
    who = {
        f"GIT_{role}_{key}": "t@x.org"
        for role in ("AUTHOR", "COMMITTER")
        for key in ("NAME", "EMAIL")
    }
    own = who | {"GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_project(folder):
    """A repository with the package, two trials and one commit; runs go to folder/runs."""
    for name in ("__init__.py", "trials/baseline/model.py", "trials/wide/model.py"):
        path = folder / "src" / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (folder / ".gitignore").write_text("/runs\n/data\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return Project(folder, PACKAGE)


def create(project, **changes):
    """A run as lab train makes it."""
    given = {
        "trial": "baseline",
        "config_yaml": "seed: 0\nmodel:\n  width: 32\n",
        "overrides": ["model.width=32"],
        "argv": ["lab", "train", "trial=baseline", "model.width=32"],
        "seed": 0,
    }
    return Run.create(project, project.root / "runs", **given | changes)


def train(project, status="finished", metrics=None, exception=None, **changes):
    """A run from start to end, with a checkpoint."""
    run = create(project, **changes)
    attempt = run.begin(project, accelerator="cpu", world_size=1)
    log = MetricsLog(run.dir, attempt.n)
    for step in (10, 20):
        log.append(step, 0, metrics or {"val/loss": 5 / step})
    log.close()
    (run.checkpoints / "last.ckpt").write_bytes(b"weights of " + run.id.encode())
    attempt.end(status, exception=exception)
    return run


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


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


def test_runs_of_one_second_have_their_own_directories(project):
    runs = [create(project) for _ in range(5)]
    assert len({run.dir for run in runs}) == 5
    assert len({(run.dir / "code.bundle").stat().st_ino for run in runs}) == 1  # one bundle, linked


def test_variants_and_checkpoints_elsewhere(project, tmp_path):
    run = create(project, trial="wide/lowlr", checkpoints=tmp_path / "scratch")
    assert run.dir.parent.name == "wide+lowlr"
    assert run.trial == "wide/lowlr"
    assert run.checkpoints == tmp_path / "scratch/wide+lowlr" / run.id
    assert run.record["code"]["trial_tree"] == git(
        project.root, "rev-parse", f"HEAD:src/{PACKAGE}/trials/wide"
    )


def test_without_git_it_says_so_and_goes_on(tmp_path, capsys):
    project = Project(tmp_path, PACKAGE)
    run = create(project)
    assert run.record["code"]["commit"] is None
    assert "not a git repository" in run.record["code"]["reason"]
    assert "the code is NOT recorded" in capsys.readouterr().err
    assert run.begin(project).n == 1


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


def test_uncommitted_changes_can_be_refused(project):
    assert create(project, dirty="refuse").id
    (project.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    with pytest.raises(errors.Refused, match="1 files are not committed"):
        create(project, dirty="refuse")


def test_variables_are_recorded_by_name_only_if_harmless(project, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("TORCH_TOKEN", "hf_" + "Ab3" * 12)
    variables = create(project).record["env"]["variables"]
    assert variables["OMP_NUM_THREADS"] == "3"
    assert not variables.keys() & {"WANDB_API_KEY", "TORCH_TOKEN", "HOME"}


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


def test_a_second_attempt(project, capsys):
    run = train(project, "interrupted")
    (project.root / "src" / PACKAGE / "new.py").write_text("x = 1\n")
    attempt = Run.open(run.dir).begin(project, overrides=["trainer.max_epochs=40"])
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


def test_a_running_run_is_not_begun_again(project):
    run = create(project)
    attempt = run.begin(project)
    with pytest.raises(errors.LabError, match="is running on this machine already"):
        Run.open(run.dir).begin(project)
    attempt.end("interrupted")
    assert Run.open(run.dir).begin(project).n == 2


def test_what_was_allowed_stays_allowed(project):
    (project.root / "src" / PACKAGE / "key.py").write_text("key = 'hf_" + "Ab3" * 12 + "'\n")
    run = create(project, allow=True)
    run.begin(project).end("interrupted")
    assert Run.open(run.dir).begin(project).n == 2


def test_another_environment_is_told_or_refused(project, capsys):
    run = create(project)
    with open(run.dir / "env.txt", "a") as file:
        file.write("gone==1.0\n")
    Run.open(run.dir).begin(project)
    assert "package.gone: 1.0 -> absent" in capsys.readouterr().err
    start = json.loads((run.dir / "attempts/1/start.json").read_bytes())
    assert start["environment_differences"] == ["package.gone: 1.0 -> absent"]
    with pytest.raises(errors.Refused, match=r"package\.gone"):
        Run.open(run.dir).begin(project, env="refuse")


def test_status_of_a_process_that_died(project):
    child = os.fork()
    if not child:
        create(project).begin(project)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    directory = next((project.root / "runs/baseline").iterdir())
    assert status_of(directory) == "lost"
    assert Run.open(directory).begin(project).n == 2
    assert status_of(directory) == "running"


def test_status_on_another_machine_follows_the_heartbeat(project):
    run = create(project)
    run.begin(project)
    start = json.loads((run.dir / "attempts/1/start.json").read_bytes())
    (run.dir / "attempts/1/start.json").write_text(
        json.dumps(start | {"pid_space": "elsewhere", "pid": 1})
    )
    assert status_of(run.dir) == "running"
    old = time.time() - 700
    os.utime(run.dir / "attempts/1/heartbeat", (old, old))
    assert status_of(run.dir) == "lost"


def test_status_of_a_job_follows_the_scheduler(project):
    run = create(project)
    run.update(job={"id": 7})
    assert status_of(run.dir) == status_of(run.dir, scheduler=lambda record: "unknown") == "queued"
    assert status_of(run.dir, scheduler=lambda record: "running") == "running"
    assert status_of(run.dir, scheduler=lambda record: None) == "lost"
    attempt = run.begin(project)
    assert (
        status_of(run.dir, scheduler=lambda record: "queued" if record["job"]["id"] == 7 else None)
        == "queued"
    )
    assert status_of(run.dir, scheduler=lambda record: "unknown") == "running"
    assert status_of(run.dir, scheduler=lambda record: None) == "lost"
    attempt.end("interrupted")
    assert status_of(run.dir, scheduler=lambda record: "queued") == "interrupted"
    (run.dir / "requeue").touch()  # preempted, and sent back to the queue
    assert status_of(run.dir, scheduler=lambda record: "queued") == status_of(run.dir) == "queued"
    assert status_of(run.dir, scheduler=lambda record: None) == "interrupted"


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


def test_records_of_other_schemas(project):
    run = train(project)
    record = json.loads((run.dir / "run.json").read_bytes())
    (run.dir / "run.json").write_text(json.dumps({"run_id": run.id, "code": {"commit": "abc"}}))
    assert Run.open(run.dir).trial == "baseline"
    (run.dir / "run.json").write_text(json.dumps(record | {"schema": 99}))
    with pytest.raises(errors.LabError, match="copier update"):
        Run.open(run.dir)


def test_frozen_code_must_be_imported_from_the_snapshot(project, tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_FROZEN", str(tmp_path))
    with pytest.raises(errors.Refused, match="must use the frozen code"):
        create(project)
