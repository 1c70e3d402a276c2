"""What the loggers keep on a disk: a kill leaves no half database, and no row is there twice."""

import json
import sqlite3
from types import SimpleNamespace

import pytest
from labrig.record.files.metrics_file import read_metrics
from labrig.training.loggers.mlflow_run import make_database
from labrig.training.loggers.wandb_access import mark_uploaded, waiting_wandb
from labrig.training.loggers.wandb_logger import WandbLogger, WandbOfRun, sweep_of


@pytest.mark.slow
def test_the_database_of_mlflow_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """R3."""
    tracking = pytest.importorskip("mlflow.tracking")
    file = tmp_path / "runs/mlflow.db"
    seen = []
    usual = tracking.MlflowClient.search_experiments
    monkeypatch.setattr(
        tracking.MlflowClient,
        "search_experiments",
        lambda self: (seen.append(file.exists()), usual(self), seen.append(file.exists())),
    )
    make_database(f"sqlite:///{file}")
    assert seen == [False, False]
    with sqlite3.connect(file) as database:
        tables = {name for (name,) in database.execute("select name from sqlite_master")}
    assert {"experiments", "runs", "metrics"} <= tables
    assert [path.name for path in file.parent.iterdir()] == ["mlflow.db"]
    make_database(f"sqlite:///{file}")  # it is there
    assert len(seen) == 2


def row(step, attempt, **values):
    return {"step": step, "epoch": 0, "attempt": attempt, "time_unix_s": step + attempt, **values}


def write_rows(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path):
    """A run that was killed after step 20 and resumed from step 10, in both files of rows."""
    rows = [(5, 1), (10, 1), (15, 1), (20, 1), (15, 2)]
    write_rows(
        tmp_path / "metrics.jsonl", [row(step, n, **{"train/loss": step}) for step, n in rows]
    )
    write_rows(tmp_path / "speed.jsonl", [row(step, n, **{"speed/step": step}) for step, n in rows])
    return SimpleNamespace(dir=tmp_path, id="a", record={}, runs=tmp_path)


def test_rows_of_a_killed_attempt_count_once_in_both_files(run):
    for name in ("metrics.jsonl", "speed.jsonl"):
        assert [(row["step"], row["attempt"]) for row in read_metrics(run.dir, name)] == [
            (5, 1), (10, 1), (15, 2), (20, 1),
        ]  # fmt: skip


@pytest.mark.parametrize(("offline", "n_waiting"), [(True, 0), (False, 1), (False, 0)])
def test_wandb_gets_the_rows_that_it_lacks_each_once(run, monkeypatch, offline, n_waiting):
    """R7, R8: an offline attempt, then an online one."""
    for n in range(n_waiting):
        folder = run.dir / f"wandb/offline-run-{n}-a"
        folder.mkdir(parents=True)
        (folder / "run-a.wandb").touch()
    logged = []
    monkeypatch.setattr(
        WandbLogger, "log_metrics", lambda self, metrics, step: logged.append((step + 1, *metrics))
    )
    logger = WandbOfRun.__new__(WandbOfRun)
    logger.__dict__ |= {"run": run, "attempt": 2, "_offline": offline, "knows_earlier_rows": False}
    monkeypatch.setattr(WandbOfRun, "experiment", object())
    logger.log_metrics({"train/loss": 15}, 14)
    steps = [step for step, *names in logged if "train/loss" in names]
    speed = [step for step, *names in logged if "speed/step" in names]
    assert steps == ([5, 10, 15] if offline or n_waiting else [15])
    assert speed == ([5, 10] if offline or n_waiting else [])
    assert waiting_wandb(run.dir) == []


def test_a_directory_that_was_uploaded_does_not_wait(tmp_path):
    folder = tmp_path / "wandb/offline-run-1-a"
    folder.mkdir(parents=True)
    (folder / "run-a.wandb").touch()
    assert waiting_wandb(tmp_path) == [folder]
    mark_uploaded([folder])
    assert waiting_wandb(tmp_path) == []


def test_the_group_of_a_run_is_its_sweep(run):
    run.record["parent"] = "baseline-62360ed4"
    assert sweep_of(run) is None
    (run.dir / "sweeps/baseline-62360ed4").mkdir(parents=True)
    assert sweep_of(run) == "baseline-62360ed4"
