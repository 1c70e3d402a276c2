"""The loggers next to the record: one run of each tracker for a run, through a kill, a resume and without a network."""

import csv
import json
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from projects import call, copy_project, environment_of, equip
from trainings import SHORT, last, rows, start
from wandb_files import logged_steps, records_in, rows_in
from wandb_server import wandb_server

pytestmark = pytest.mark.slow

KEY = "0123456789abcdef" * 2 + "01234567"  # 40 characters, as W&B's
OFFLINE = {"WANDB_API_KEY": KEY, "WANDB_MODE": "offline", "NETRC": "/nonexistent"}
SETTINGS = ("trial=baseline", *SHORT, "logger=[csv,tensorboard,wandb,mlflow]")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A project of these tests alone: `lab sync` uploads the runs of all."""
    folder = equip(copy_project(tmp_path_factory.mktemp("loggers") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    return folder


@pytest.fixture(scope="module")
def run(home):
    """A run that was killed after step 40, whose last checkpoint is that of step 23, and resumed."""
    often = ("log.every_n_steps=5", "log.every_s=0")
    process, _ = start(home, *SETTINGS, *often, until="step 40/", **OFFLINE)
    process.kill()
    process.wait()
    process.stdout.close()
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3", **OFFLINE)
    return last(home)


@pytest.fixture(scope="module")
def logged(run):
    """The training rows that the run's metrics.jsonl has at its end: of a step the newest."""
    newest = {row["step"]: row for row in rows(run) if "train/loss" in row}
    assert len(newest) < sum("train/loss" in row for row in rows(run)), "some were logged twice"
    return newest


@pytest.mark.release
def test_csv_keeps_the_earlier_rows(run, logged):
    with open(f"{run['run_dir']}/metrics.csv", newline="") as file:
        table = list(csv.DictReader(file))
    of_training = {int(row["step"]): row for row in table if row["train/loss"]}
    assert sorted(of_training) == sorted(logged)
    assert len(of_training) == sum(bool(row["train/loss"]) for row in table), "none is there twice"
    assert {row["attempt"] for row in table} == {"1", "2"}
    for step, row in of_training.items():
        assert float(row["train/loss"]) == pytest.approx(logged[step]["train/loss"])
        assert float(row["train/lr"]) == pytest.approx(logged[step]["train/lr"])
    assert [row for row in table if row["val/acc"]]


@pytest.mark.release
def test_tensorboard_shows_one_curve(run, logged):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = EventAccumulator(f"{run['run_dir']}/tensorboard")
    curves.Reload()
    points = curves.Scalars("train/loss")
    assert [point.step + 1 for point in points] == sorted(logged)
    for point in points:
        assert point.value == pytest.approx(logged[point.step + 1]["train/loss"], rel=1e-5)


def test_the_newest_wandb_file_holds_the_whole_run(run, logged):
    files = sorted(Path(run["run_dir"]).glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{run['run_id']}.wandb"] * 2
    assert logged_steps(files[-1]) == sorted(logged)


def test_mlflow_has_one_run_with_settings_and_curves(home, run, logged):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{home}/runs/mlflow.db")
    (found,) = runs_of_mlflow(client, run)
    assert found.info.status == "FINISHED"
    assert found.data.params["optimizer.lr"] == "0.001"
    assert found.data.tags["mlflow.source.git.commit"] == run["code"]["commit"]
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert sorted(point.step for point in history) == sorted(logged)
    assert {point.step: point.value for point in history} == pytest.approx(
        {step: row["train/loss"] for step, row in logged.items()}
    )
    assert "speed/samples_per_s" in found.data.metrics


def runs_of_mlflow(client, run):
    experiment = client.get_experiment_by_name("myproj")
    return client.search_runs([experiment.experiment_id], f"tags.`lab.run_id` = '{run['run_id']}'")


def test_no_key_is_in_a_file(home, run):
    found = subprocess.run(["grep", "-rlF", KEY, home], capture_output=True, text=True).stdout
    assert found == ""


@pytest.mark.release
def test_sync_uploads_to_both_and_only_once(home, run, logged, tmp_path, monkeypatch):
    """W&B's own command reads its file, and sends it to a server on this machine."""
    from mlflow.tracking import MlflowClient

    Path(run["run_dir"], "mlflow.synced").unlink()
    uri = f"file:{tmp_path}/mlruns"
    assert f"{run['run_dir']} to MLflow" in call(home, "lab", "sync", "--dry-run")
    with wandb_server() as (url, histories):
        variables = {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY, "MLFLOW_TRACKING_URI": uri}
        call(home, "lab", "sync", **variables)
    assert list(histories) == [run["run_id"]]
    history = [json.loads(line) for line in histories[run["run_id"]]]
    steps = [row["trainer/global_step"] + 1 for row in history if "train/loss" in row]
    assert steps == sorted(logged)

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(uri)
    (found,) = runs_of_mlflow(client, run)
    points = client.get_metric_history(found.info.run_id, "train/loss")
    assert sorted(point.step for point in points) == sorted(logged)
    assert call(home, "lab", "sync", "--dry-run") == ""


@pytest.mark.release
def test_curves_of_a_run_that_goes_on_are_uploaded(home):
    """W&B's own command follows its file, to a server on this machine, until the run ends."""
    settings = ("trial=baseline", *SHORT, "logger=wandb", "trainer.max_epochs=500")
    often = ("log.every_n_steps=1", "log.every_s=0")
    process, _ = start(home, *settings, *often, until="epoch 2/", **OFFLINE)
    run_id = last(home)["run_id"]
    (folder,) = Path(last(home)["run_dir"]).glob("wandb/offline-run-*")

    def wait_for(happens):
        deadline = time.monotonic() + 120
        while not happens():
            assert watch.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.5)

    with wandb_server() as (url, histories):
        environment = environment_of(home, WANDB_BASE_URL=url, WANDB_API_KEY=KEY)
        command = [sys.executable, "-m", "labrig", "sync", "--watch"]
        # Tests that run in the background ignore Ctrl-C, and what they start would do so too.
        listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        watch = subprocess.Popen(command, cwd=home, env=environment, preexec_fn=listen)
        try:
            wait_for(lambda: histories.get(run_id))
            assert process.poll() is None, "the run goes on"
            early = len(histories[run_id])
            process.send_signal(signal.SIGTERM)
            process.stdout.read()  # or the run would wait for a reader
            wait_for(lambda: any(folder.glob("*.wandb.synced")))
        finally:
            watch.send_signal(signal.SIGINT)
            process.kill()
            for each in (watch, process):
                each.wait(120)
            process.stdout.close()
        history = [json.loads(line) for line in histories[run_id]]
        steps = [row["trainer/global_step"] + 1 for row in history if "train/loss" in row]
        assert steps == sorted({row["step"] for row in rows(last(home)) if "train/loss" in row})
        assert len(history) > early
        assert run_id not in call(home, "lab", "sync", "--dry-run")


@pytest.mark.release
def test_a_server_that_never_answers_stops_nothing(home):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        variables = {
            "MLFLOW_TRACKING_URI": address,
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "2",
            "WANDB_BASE_URL": address,
            "WANDB_API_KEY": KEY,
            "WANDB_INIT_TIMEOUT": "5",
            "WANDB_MODE": "online",
        }
        said = call(home, "lab", "train", *SETTINGS, "trainer.max_epochs=1", **variables)
    assert "The training continues offline; upload later: lab sync" in said
    assert "MLflow: " in said
    record = last(home)
    assert record["status"] == "finished"
    waiting = call(home, "lab", "sync", "--dry-run")
    assert f"{record['run_dir']}/wandb/offline-run-" in waiting
    assert f"{record['run_dir']} to MLflow" in waiting
    assert json.loads(json.dumps(record["metrics"]))["test/acc"] > 0


@pytest.mark.release
def test_wandb_gets_tags_and_histograms_of_the_layers_when_asked(home, run, logged):
    watched = ("logger.wandb.watch=all", "logger.wandb.tags=[first,wide]")
    few = ("trainer.limit_train_batches=6", "log.every_n_steps=2", "log.every_s=0")
    call(home, "lab", "train", *SETTINGS[:-1], "logger=wandb", *watched, *few, **OFFLINE)
    (file,) = Path(last(home)["run_dir"]).glob("wandb/offline-run-*/*.wandb")
    names = {name.partition("/")[2] for row in rows_in(file) for name in row if "gradients" in name}
    assert any(name.startswith("model.") and name.endswith("weight/values") for name in names), (
        names
    )
    parameters = {name for row in rows_in(file) for name in row if name.startswith("parameters/")}
    layers = {name.removeprefix("model.") for name in names if name.startswith("model.")}
    assert {name.partition("/")[2] for name in parameters} == layers, "of the same layers"
    (tags,) = {tuple(each.run.tags) for each in records_in(file) if each.run.run_id}
    assert tags == ("first", "wide")
    (newest, *_) = sorted(Path(run["run_dir"]).glob("wandb/offline-run-*/*.wandb"), reverse=True)
    assert not any("gradients" in name for row in rows_in(newest) for name in row), "nobody asked"
