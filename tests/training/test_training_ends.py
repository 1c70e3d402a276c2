"""How trainings end: stopped, resumed, extended, failed, out of disk; and what the record says then."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from labrig.training.loggers import wandb_logger
from projects import call
from trainings import SHORT, add_trial, last, rows, start


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_continues_where_it_stopped(home, number):
    process, lines = start(
        home,
        "trial=baseline",
        "trainer=cpu",
        "trainer.max_epochs=400",
        "trainer.threads=1",
        "log.every_n_steps=5",
    )
    os.killpg(process.pid, number)
    rest = process.communicate(timeout=120)[0]
    run_id = next(line for line in lines if line.startswith("run ")).split()[1]
    record = json.loads(call(home, "lab", "runs", "show", run_id, "--json"))
    assert record["status"] == ("lost" if number == signal.SIGKILL else "interrupted")
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert record["attempts"][0]["end"]["signal"] == signal.SIGINT
        assert f"lab resume {run_id}" in rest
    stopped = rows(record)[-1]["step"]
    if number == signal.SIGINT:
        assert "max_epochs=1" in call(home, "lab", "resume", run_id, "trainer.max_epochs=1", rc=1)
    epochs = stopped // 23 + 2
    call(home, "lab", "resume", run_id, f"trainer.max_epochs={epochs}")
    record = json.loads(call(home, "lab", "runs", "show", run_id, "--json"))
    assert record["status"] == "finished"
    train = [(row["attempt"], row["step"]) for row in rows(record) if "train/loss" in row]
    again = [step for attempt, step in train if attempt > 1]
    steps = [step for attempt, step in train if attempt == 1 and step < again[0]] + again
    assert steps == sorted(set(steps)), "no row twice"
    assert set(range(5, epochs * 23, 5)) <= set(steps), "no row missing"
    assert steps[-1] == epochs * 23
    assert stopped >= 46


@pytest.mark.release
@pytest.mark.slow
def test_a_finished_run_can_be_extended_but_not_changed(home):
    call(home, "lab", "train", "trial=baseline", *SHORT)
    before = last(home)
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    after = last(home)
    assert after["run_id"] == before["run_id"]
    assert max(row["step"] for row in rows(after)) == 3 * 23
    said = call(home, "lab", "resume", "@last", "optimizer.lr=1", rc=2)
    assert "cannot change within a run" in said


@pytest.mark.release
@pytest.mark.slow
def test_resuming_twice_equals_training_at_once(home):
    settings = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "schedule=constant")
    call(home, "lab", "train", *settings, "trainer.max_epochs=3")
    whole = torch.load(f"{last(home)['run_dir']}/checkpoints/last.ckpt", weights_only=True)[
        "state_dict"
    ]
    call(home, "lab", "train", *settings, "trainer.max_epochs=1")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=2")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    parts = torch.load(f"{last(home)['run_dir']}/checkpoints/last.ckpt", weights_only=True)[
        "state_dict"
    ]
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


SLOW = """
import os, time
import lightning.pytorch as L

class Slow(L.Callback):
    def on_validation_batch_start(self, trainer, *_):
        if trainer.current_epoch == 1 and "SLOW" in os.environ:
            print("validating", flush=True)
            time.sleep(1)
"""


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("in_a_job", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_run_that_is_stopped_in_its_validation_loses_nothing(home, in_a_job):
    """The weights are those of a run that was never stopped, although dropout draws from the random generator."""
    name = f"slow{int(in_a_job)}"
    net = "from torch import nn\ndef net(): return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))\n"
    config = "model:\n  _target_: .model.net\ncallbacks:\n  slow:\n    _target_: .slow.Slow\n"
    add_trial(home, name, config_yaml=config, model_py=net, slow_py=SLOW)
    settings = (f"trial={name}", "trainer=cpu", "trainer.max_epochs=3", "trainer.threads=1")
    call(home, "lab", "train", *settings)
    whole = last(home)
    job = {"LAB_JOB": "7", "OMP_NUM_THREADS": "1"} if in_a_job else {}
    process, lines = start(home, *settings, until="validating", SLOW="1", **job)
    os.kill(process.pid, signal.SIGTERM)
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    run_id = next(line for line in lines if line.startswith("run ")).split()[1]
    assert ("the job continues it" if in_a_job else f"continue with: lab resume {run_id}") in rest
    call(home, "lab", "resume", run_id)
    parts = last(home)
    assert (parts["run_id"], parts["status"]) == (run_id, "finished")
    assert parts["attempts"][0]["end"]["signal"] == signal.SIGTERM
    assert [row["attempt"] for row in rows(parts) if "val/loss" in row] == [1, 2, 2], (
        "the validation was not finished"
    )
    names = ("val/loss", "val/acc", "train/loss")
    numbers = [[row.get(name) for name in names] for row in rows(whole)]
    assert [[row.get(name) for name in names] for row in rows(parts)] == numbers
    weights = [
        torch.load(f"{r['run_dir']}/checkpoints/last.ckpt", weights_only=True)
        for r in (whole, parts)
    ]
    state, same = (content["state_dict"] for content in weights)
    assert all(torch.equal(state[key], same[key]) for key in state)


@pytest.mark.slow
def test_a_run_whose_code_raises_is_recorded_as_failed(home):
    add_trial(
        home,
        "broken",
        config_yaml="model:\n  _target_: .model.Net\n",
        model_py="from torch import nn\nclass Net(nn.Module):\n"
        "    def forward(self, x):\n        raise RuntimeError('boom at noon')\n"
        "    def __init__(self):\n        super().__init__()\n        self.w = nn.Linear(1, 1)\n",
    )
    said = call(home, "lab", "train", "trial=broken", *SHORT, rc=1)
    assert "model.py" in said, "the user's own line is shown"
    record = last(home)
    assert record["status"] == "failed"
    assert "boom at noon" in json.dumps(record)
    said = call(home, "lab", "check", "trial=broken", rc=2)
    assert "boom at noon" in said
    assert "Traceback" not in said


ONE_AFTER_THE_OTHER = """
import sys
from labrig.cli import main
sys.stderr = sys.stdout
for command in sys.argv[1:]:
    print("CODE", main(command.split()), flush=True)
"""


@pytest.mark.release
@pytest.mark.slow
def test_what_is_found_only_after_importing(home):
    add_trial(home, "absent", config_yaml="model:\n  _target_: torch.nn.Lineal\n  in_features: 3\n")
    (home / "data/half.h5").write_bytes((home / "data/digits.h5").read_bytes()[:5000])
    (home / "data/foreign.h5").write_bytes(b"not HDF5 at all")
    files = ("half.h5", "foreign.h5", "nowhere.h5")
    wrong = ["trial=absent", *(f"trial=baseline data.path={file}" for file in files)]
    commands = [
        f"{command} {settings} {' '.join(SHORT)}"
        for settings in wrong
        for command in ("train", "check")
    ]
    said = call(home, sys.executable, "-B", "-c", ONE_AFTER_THE_OTHER, *commands).split("CODE")
    codes = [part.split("\n")[0] for part in said[1:]]
    assert codes == [*[" 1", " 2"] * 3, " 2", " 2"], (
        "but for missing data, a training has made a run"
    )
    for part, name in zip(
        said, ["Lineal"] * 2 + [file for file in files for _ in range(2)], strict=False
    ):
        assert name in part
        assert "Traceback" not in part


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_run(home):
    said = call(
        home,
        "lab",
        "train",
        "trial=baseline",
        *SHORT,
        "optimizer.lr=1e30",
        "log.every_n_steps=5",
        rc=1,
    )
    assert "train/loss is " in said
    assert "steps up to step 5" in said
    assert last(home)["status"] == "failed"


@pytest.mark.release
@pytest.mark.slow
def test_a_full_disk_keeps_the_checkpoint_before(home, tmp_path):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no user namespaces, which a small full disk needs")
    small = tmp_path / "small"
    small.mkdir()
    settings = f"trial=baseline trainer=cpu trainer.threads=1 trainer.max_epochs=3 paths.checkpoints={small}"
    script = f"""
        mount -t tmpfs -o size=3m tmpfs {small}
        {sys.executable} -m labrig train {settings}; echo "rc $?"
        find {small} -name '*.ckpt' -printf '%f %s\\n'
        {sys.executable} -c "import torch, glob; file = glob.glob('{small}/*/*/last.ckpt')[0]
print('step', torch.load(file, weights_only=True)['global_step'])"
    """
    said = call(home, "unshare", "-rm", "bash", "-c", script)
    assert "rc 1" in said
    assert "no space left on the disk" in said
    assert str(small) in said
    assert "lab resume" in said
    assert "Traceback" not in said
    assert "step 23" in said
    assert last(home)["status"] == "failed"


@pytest.mark.release
@pytest.mark.slow
def test_a_job_with_gpus_that_sees_none_stops_at_once(home):
    for variables, settings in (
        ({"SLURM_JOB_GPUS": "0,1"}, ["trainer=auto"]),
        ({}, ["trainer=gpu"]),
    ):
        said = call(home, "lab", "train", "trial=baseline", *settings, rc=1, **variables)
        assert "driver:" in said
        assert torch.__version__ in said


@pytest.mark.release
@pytest.mark.slow
def test_settings_are_recorded_and_kept(home):
    call(home, "lab", "train", "trial=baseline", *SHORT, "trainer.precision=bf16-mixed")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    facts = [
        json.loads(Path(last(home)["run_dir"], f"attempts/{n}/start.json").read_text())
        for n in (1, 2)
    ]
    assert [fact["precision"] for fact in facts] == ["bf16-mixed", "bf16-mixed"]
    assert facts[0]["threads"] == 1
    assert facts[0]["device"] == "cpu"
    assert facts[0]["data"]


@pytest.mark.slow
def test_the_environment_file_is_read_but_never_recorded(home):
    secret = "correct-horse-battery-staple"
    (home / ".env").write_text(f"MY_NAME='{secret}'\n")
    (home / "data" / secret).write_bytes(b"no HDF5")
    trial = home / "src/myproj/trials/baseline/config.yaml"
    before = trial.read_text()
    trial.write_text(
        before + "callbacks:\n  who:\n    _target_: lightning.pytorch.callbacks.LambdaCallback\n"
    )
    try:
        call(home, "lab", "train", "trial=baseline", *SHORT, "data.path=${oc.env:MY_NAME}", rc=1)
        record = last(home)
    finally:
        trial.write_text(before)
        (home / ".env").unlink()
        (home / "data" / secret).unlink()
    found = subprocess.run(
        ["grep", "-rl", secret, record["run_dir"]], capture_output=True, text=True
    ).stdout
    assert found == "", "the value of .env is in the record"
    assert "${oc.env:MY_NAME}" in Path(record["run_dir"], "config.yaml").read_text()


@pytest.mark.parametrize(
    ("key", "reachable", "mode"),
    [("", True, "offline"), ("0" * 40, False, "offline"), ("0" * 40, True, "online")],
)
def test_wandb_is_online_with_a_key_and_a_network(monkeypatch, key, reachable, mode):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_API_KEY", key)
    monkeypatch.setenv("NETRC", "/nonexistent")
    monkeypatch.setattr(wandb_logger, "is_reachable", lambda host: reachable)
    assert wandb_logger.wandb_mode("auto", jobs_have_internet=True) == mode
    assert wandb_logger.wandb_mode("auto", jobs_have_internet=False) == "offline"
    assert wandb_logger.wandb_mode("disabled", jobs_have_internet=True) == "disabled"


@pytest.mark.release
@pytest.mark.slow
def test_loggers_write_next_to_the_record(home):
    settings = ("trial=baseline", *SHORT, "logger=[tensorboard,wandb]")
    said = call(home, "lab", "train", *settings, WANDB_API_KEY="", NETRC="/nonexistent")
    assert "offline" in said
    call(
        home,
        "lab",
        "resume",
        "@last",
        "trainer.max_epochs=3",
        WANDB_API_KEY="",
        NETRC="/nonexistent",
    )
    record = last(home)
    offline = [
        name for name in os.listdir(f"{record['run_dir']}/wandb") if name.startswith("offline-run-")
    ]
    assert offline
    assert all(name.endswith(record["run_id"]) for name in offline), "one W&B run per run id"
    assert any(
        name.startswith("events.out.tfevents")
        for name in os.listdir(f"{record['run_dir']}/tensorboard")
    )
    assert {row["attempt"] for row in rows(record)} == {1, 2}
