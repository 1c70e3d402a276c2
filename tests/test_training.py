"""Real trainings of the rendered project: accuracy, stopping, going on, extending, failing, two processes, any module."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import call, equip

SHORT = ("trainer=cpu", "trainer.max_epochs=2", "trainer.threads=1")


@pytest.fixture(scope="module")
def home(render, tmp_path_factory):
    """A project with its data packed and one short finished run."""
    folder = equip(render(tmp_path_factory.mktemp("training") / "myproj"))
    call(folder, "lab", "data", "pack", "digits")
    call(folder, "lab", "train", "trial=baseline", *SHORT)
    return folder


def last(folder):
    return json.loads(call(folder, "lab", "runs", "show", "@last", "--json"))


def rows(record):
    with open(f"{record['run_dir']}/metrics.jsonl") as file:
        return [json.loads(line) for line in file]


def add_trial(folder, name, **files):
    trial = folder / "src/myproj/trials" / name
    trial.mkdir()
    (trial / "__init__.py").touch()
    for file, text in files.items():
        (trial / file.replace("_", ".")).write_text(text)


def start(folder, *settings):
    """A training in the background, in a session of its own, and its first line: `run ID DIRECTORY`."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "myproj.lab", "train", *settings]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    for line in process.stdout:  # ends with the process
        lines.append(line)
        if line.startswith("epoch 2/"):
            return process, lines
    raise AssertionError("".join(lines))


def test_the_baseline_reads_digits(home):
    shown = call(home, "lab", "train", "trial=baseline", "trainer=cpu")
    record = last(home)
    assert record["status"] == "finished"
    assert record["metrics"]["test/acc"] >= 0.975
    assert {"train/loss", "val/loss", "val/acc", "test/loss", "test/acc"} <= set(record["metrics"])
    assert record["seed"] == 0
    assert "epoch 20/20" in shown
    assert "\r" not in shown, "plain lines where there is no terminal"


def test_checkpoints_hold_plain_types(home):
    directory = f"{last(home)['run_dir']}/checkpoints"
    for name in ("last", "previous", "best"):
        content = torch.load(f"{directory}/{name}.ckpt", weights_only=True)
        assert content["state_dict"]
        assert content["random_states"][0]["torch"].dtype == torch.uint8
    assert sorted(os.listdir(directory)) == ["best.ckpt", "last.ckpt", "previous.ckpt"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on_where_it_stopped(home, number):
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
        assert f"lab resume {run_id}" in rest
    stopped = rows(record)[-1]["step"]
    if number == signal.SIGINT:
        assert "max_epochs=1" in call(home, "lab", "resume", run_id, "trainer.max_epochs=1", rc=2)
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


def test_a_finished_run_can_be_extended_but_not_changed(home):
    call(home, "lab", "train", "trial=baseline", *SHORT)
    before = last(home)
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    after = last(home)
    assert after["run_id"] == before["run_id"]
    assert max(row["step"] for row in rows(after)) == 3 * 23
    said = call(home, "lab", "resume", "@last", "optimizer.lr=1", rc=2)
    assert "cannot change within a run" in said


def test_resuming_twice_equals_training_at_once(home):
    settings = ("trial=baseline", "trainer=cpu", "trainer.threads=1", "schedule=constant")
    call(home, "lab", "train", *settings, "trainer.max_epochs=3")
    whole = torch.load(f"{last(home)['run_dir']}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    call(home, "lab", "train", *settings, "trainer.max_epochs=1")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=2")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    parts = torch.load(f"{last(home)['run_dir']}/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_two_processes_train_and_evaluate_like_one(home):
    call(
        home,
        "lab",
        "train",
        "trial=baseline",
        "trainer=cpu",
        "trainer.max_epochs=12",
        "trainer.devices=2",
        "optimizer.lr=2e-3",
    )
    record = last(home)
    assert record["status"] == "finished"
    assert record["metrics"]["test/acc"] >= 0.95
    assert len(os.listdir(f"{record['run_dir']}/attempts")) == 1, "one run, one attempt, for both processes"
    one = json.loads(call(home, "lab", "eval", "@last", "trainer.devices=1", "--json").splitlines()[-1])
    two = json.loads(call(home, "lab", "eval", "@last", "trainer.devices=2", "--json").splitlines()[-1])
    assert one == pytest.approx(two, abs=1e-6)
    assert one == pytest.approx({name: record["metrics"][name] for name in one}, abs=1e-6)


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


GAN = '''
import lightning.pytorch as L
import torch
from torch import nn


class GAN(L.LightningModule):
    """Two optimizers, stepped by hand."""

    def __init__(self, n_latent: int = 4):
        super().__init__()
        self.automatic_optimization = False
        self.n_latent = n_latent
        self.generator = nn.Sequential(nn.Linear(n_latent, 32), nn.ReLU(), nn.Linear(32, 64))
        self.critic = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, batch_idx):
        real = batch[0]
        optimizer_g, optimizer_c = self.optimizers()
        fake = self.generator(torch.randn(len(real), self.n_latent, device=self.device)).reshape(-1, 1, 8, 8)
        loss_c = nn.functional.softplus(-self.critic(real)).mean() + nn.functional.softplus(self.critic(fake.detach())).mean()
        optimizer_c.zero_grad()
        self.manual_backward(loss_c)
        optimizer_c.step()
        loss_g = nn.functional.softplus(-self.critic(fake)).mean()
        optimizer_g.zero_grad()
        self.manual_backward(loss_g)
        optimizer_g.step()
        self.log("train/own", loss_g)
        return {"critic": loss_c, "generator": loss_g}

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(self.critic.parameters())
'''


def test_several_optimizers_stepped_by_hand(home):
    add_trial(
        home,
        "gan",
        config_yaml="task:\n  _target_: .task.GAN\n  n_latent: 6\ncheckpoint:\n  monitor: null\n",
        task_py=GAN,
    )
    assert "ok  gan" in call(home, "lab", "check", "trial=gan")
    call(
        home,
        "lab",
        "train",
        "trial=gan",
        *SHORT,
        "trainer.test_after_fit=false",
        "log.every_n_steps=10",
        "trainer.gradient_clip_val=1.0",
    )
    record = last(home)
    assert record["status"] == "finished"
    logged = {name for row in rows(record) for name in row}
    assert {"train/critic", "train/generator", "train/own"} <= logged
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    states = torch.load(f"{record['run_dir']}/checkpoints/last.ckpt", weights_only=True)["optimizer_states"]
    assert len(states) == 2
    assert "gan's arguments" not in call(home, "lab", "train", "trial=gan", "task.n_latnt=3", rc=2)


def test_any_data_module_and_any_module(home):
    (home / "src/myproj/theirs.py").write_text(
        "from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel\n"
        "class Theirs(BoringModel):\n    pass\n"
    )
    (home / "src/myproj/conf/data/theirs.yaml").write_text(
        "_target_: lightning.pytorch.demos.boring_classes.BoringDataModule\n"
    )
    add_trial(
        home,
        "theirs",
        config_yaml="defaults:\n  - data: theirs\ntask:\n  _target_: ${package}.theirs.Theirs\n",
    )
    call(home, "lab", "train", "trial=theirs", *SHORT)
    assert last(home)["status"] == "finished"
    call(home, "lab", "train", "trial=theirs", *SHORT, "trainer.devices=2")
    assert last(home)["status"] == "finished"


def test_what_is_found_only_after_importing(home):
    add_trial(home, "absent", config_yaml="model:\n  _target_: torch.nn.Lineal\n  in_features: 3\n")
    assert "Lineal" in call(home, "lab", "train", "trial=absent", *SHORT, rc=2)
    (home / "data/half.h5").write_bytes((home / "data/digits.h5").read_bytes()[:5000])
    (home / "data/foreign.h5").write_bytes(b"not HDF5 at all")
    for name in ("half.h5", "foreign.h5", "nowhere.h5"):
        said = call(home, "lab", "train", "trial=baseline", *SHORT, f"data.path={name}", rc=2)
        assert name in said
        assert "Traceback" not in said
        assert name in call(home, "lab", "check", "trial=baseline", f"data.path={name}", rc=2)


def test_a_loss_that_is_not_finite_stops_the_run(home):
    said = call(
        home, "lab", "train", "trial=baseline", *SHORT, "optimizer.lr=1e30", "log.every_n_steps=5", rc=1
    )
    assert "train/loss is " in said
    assert "steps up to step 5" in said
    assert last(home)["status"] == "failed"


def test_a_full_disk_keeps_the_checkpoint_before(home, tmp_path):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no user namespaces, which a small full disk needs")
    small = tmp_path / "small"
    small.mkdir()
    settings = f"trial=baseline trainer=cpu trainer.threads=1 trainer.max_epochs=3 paths.checkpoints={small}"
    script = f"""
        mount -t tmpfs -o size=3m tmpfs {small}
        {sys.executable} -m myproj.lab train {settings}; echo "rc $?"
        find {small} -name '*.ckpt' -printf '%f %s\\n'
        {sys.executable} -c "import torch, glob; file = glob.glob('{small}/*/*/last.ckpt')[0]
print('step', torch.load(file, weights_only=True)['global_step'])"
    """
    said = call(home, "unshare", "-rm", "bash", "-c", script)
    assert "rc 1" in said
    assert "no space for a checkpoint" in said
    assert str(small) in said
    assert "lab resume" in said
    assert "Traceback" not in said
    assert "step 23" in said
    assert last(home)["status"] == "failed"


def test_a_job_with_gpus_that_sees_none_stops_at_once(home):
    for variables, settings in (({"SLURM_JOB_GPUS": "0,1"}, ["trainer=auto"]), ({}, ["trainer=gpu"])):
        said = call(home, "lab", "train", "trial=baseline", *settings, rc=2, **variables)
        assert "driver:" in said
        assert torch.__version__ in said


def test_settings_are_recorded_and_kept(home):
    call(home, "lab", "train", "trial=baseline", *SHORT, "trainer.precision=bf16-mixed")
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    facts = [json.loads(Path(last(home)["run_dir"], f"attempts/{n}/start.json").read_text()) for n in (1, 2)]
    assert [fact["precision"] for fact in facts] == ["bf16-mixed", "bf16-mixed"]
    assert facts[0]["threads"] == 1
    assert facts[0]["device"] == "cpu"
    assert facts[0]["data"]


def test_load_gives_the_model_of_a_run(home):
    code = (
        "from myproj.lab import load\nimport torch\nmodel = load('@last')\n"
        "print(type(model).__name__, model.training, tuple(model(torch.zeros(2, 1, 8, 8)).shape))"
    )
    call(home, "lab", "train", "trial=baseline", *SHORT)
    assert "CNN False (2, 10)" in call(home, sys.executable, "-c", code)


def test_a_copied_trial_uses_its_own_code(home):
    call(home, "lab", "trials", "new", "wide", "--from", "baseline")
    model = home / "src/myproj/trials/wide/model.py"
    model.write_text(model.read_text().replace("class CNN", "WIDE = True\n\n\nclass CNN"))
    (home / "src/myproj/trials/wide/lowlr.yaml").write_text("optimizer:\n  lr: 1.0e-4\n")
    shown = call(home, "lab", "config", "trial=wide/lowlr", "--origin")
    assert "model._target_=myproj.trials.wide.model.CNN" in shown
    assert "optimizer.lr=0.0001  # src/myproj/trials/wide/lowlr.yaml" in shown
    assert "trainer.max_epochs=20  # src/myproj/conf/config.yaml" in shown
    call(home, "lab", "train", "trial=wide/lowlr", *SHORT)
    assert last(home)["trial"] == "wide/lowlr"
    tree = call(home, "lab", "trials", "tree")
    assert "└─ wide" in tree or "├─ wide" in tree
    assert "1 run" in tree


def test_the_environment_file_is_read_but_never_recorded(home):
    secret = "correct-horse-battery-staple"
    (home / ".env").write_text(f"MY_NAME='{secret}'\n")
    trial = home / "src/myproj/trials/baseline/config.yaml"
    before = trial.read_text()
    trial.write_text(
        before + "callbacks:\n  who:\n    _target_: lightning.pytorch.callbacks.LambdaCallback\n"
    )
    try:
        call(home, "lab", "train", "trial=baseline", *SHORT, "data.path=${oc.env:MY_NAME}", rc=2)
        record = last(home)
    finally:
        trial.write_text(before)
        (home / ".env").unlink()
    found = subprocess.run(["grep", "-rl", secret, record["run_dir"]], capture_output=True, text=True).stdout
    assert found == "", "the value of .env is in the record"
    assert "${oc.env:MY_NAME}" in Path(record["run_dir"], "config.yaml").read_text()


def test_loggers_write_beside_the_record(home):
    settings = ("trial=baseline", *SHORT, "logger=[tensorboard,wandb]")
    started = time.monotonic()
    said = call(home, "lab", "train", *settings, WANDB_API_KEY="", NETRC="/nonexistent")
    assert "offline" in said
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3", WANDB_API_KEY="", NETRC="/nonexistent")
    assert time.monotonic() - started < 240
    record = last(home)
    offline = [name for name in os.listdir(f"{record['run_dir']}/wandb") if name.startswith("offline-run-")]
    assert offline
    assert all(name.endswith(record["run_id"]) for name in offline), "one W&B run per run id"
    assert any(
        name.startswith("events.out.tfevents") for name in os.listdir(f"{record['run_dir']}/tensorboard")
    )
    assert {row["attempt"] for row in rows(record)} == {1, 2}
