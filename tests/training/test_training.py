"""Real trainings of the rendered project: accuracy, checkpoints, two processes, any module, any data."""

import inspect
import json
import os
import platform
import re
import socket
import sys
from pathlib import Path

import pytest
import torch
from in_process import Linear
from projects import call, copy_of
from trainings import SHORT, add_trial, first, last, rows, start


def test_the_baseline_reads_digits(home):
    """After two epochs; after all twenty of them: test_readme_commands_run_in_order."""
    record = json.loads(call(home, "lab", "runs", "show", first(home)["run_id"], "--json"))
    assert record["status"] == "finished"
    assert record["metrics"]["test/acc"] >= 0.95
    assert {"train/loss", "val/loss", "val/acc", "test/loss", "test/acc"} <= set(record["metrics"])
    assert record["seed"] == 0


@pytest.mark.release
@pytest.mark.slow
def test_no_garbage_is_looked_for_while_lightning_is_imported(home):
    """Nor in what was imported, later: it is frozen. Afterwards Python looks as always."""
    code = "import gc; from labrig.cli import main; main(); print('then', gc.isenabled(), gc.get_freeze_count())"
    settings = ("trial=baseline", "trainer=cpu", "trainer.max_steps=1", "trainer.threads=1")
    printed = call(home, sys.executable, "-c", code, "train", *settings)
    is_enabled, n_frozen = re.search(r"^then (\w+) (\d+)$", printed, re.MULTILINE).groups()
    assert is_enabled == "True"
    assert int(n_frozen) > 100_000, "without it there are none"


def test_checkpoints_hold_plain_types(home):
    directory = home / "runs/baseline" / first(home)["run_id"] / "checkpoints"
    for name in ("last", "previous", "best"):
        content = torch.load(f"{directory}/{name}.ckpt", weights_only=True)
        assert content["state_dict"]
        assert content["random_states"][0]["torch"].dtype == torch.uint8
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    assert names == ["best.ckpt", "last.ckpt", "previous.ckpt"]


@pytest.mark.slow
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
    assert len(os.listdir(f"{record['run_dir']}/attempts")) == 1, (
        "one run, one attempt, for both processes"
    )
    one = json.loads(
        call(home, "lab", "eval", "@last", "trainer.devices=1", "--json").splitlines()[-1]
    )
    two = json.loads(
        call(home, "lab", "eval", "@last", "trainer.devices=2", "--json").splitlines()[-1]
    )
    assert one == pytest.approx(two, abs=1e-6)
    assert one == pytest.approx({name: record["metrics"][name] for name in one}, abs=1e-6)


WRITERS = """
from pathlib import Path

import lightning.pytorch as L


class Writers(L.Callback):
    '''Leaves a file for each process that writes a checkpoint.'''

    def on_fit_start(self, trainer, pl_module):
        write = trainer.strategy.checkpoint_io.save_checkpoint

        def noted(*args, **kwargs):
            Path(f"writer-{trainer.global_rank}").touch()
            write(*args, **kwargs)

        trainer.strategy.checkpoint_io.save_checkpoint = noted
"""


@pytest.mark.release
@pytest.mark.slow
def test_of_two_processes_the_first_writes_the_checkpoints(home):
    (home / "src/myproj/writers.py").write_text(WRITERS)
    callback = "callbacks.writers._target_=myproj.writers.Writers"
    call(home, "lab", "train", "trial=baseline", *SHORT, "trainer.devices=2", callback)
    assert [path.name for path in home.glob("writer-*")] == ["writer-0"]
    assert Path(last(home)["run_dir"], "checkpoints/last.ckpt").exists()


@pytest.mark.release
def test_parameters_spread_over_two_processes_learn_the_same(home):
    model = f"from torch import nn\n\n\n{inspect.getsource(Linear)}"
    add_trial(home, "linear", config_yaml="model:\n  _target_: .model.Linear\n", model_py=model)
    records = []
    for fsdp in ("false", "true"):
        settings = ("trial=linear", *SHORT, "trainer.devices=2", f"speed.fsdp={fsdp}")
        call(home, "lab", "train", *settings)
        records.append(last(home))
    whole, spread = [
        torch.load(Path(record["run_dir"], "checkpoints/last.ckpt"), weights_only=True)
        for record in records
    ]
    assert whole["state_dict"].keys() == spread["state_dict"].keys()
    for name, value in whole["state_dict"].items():
        torch.testing.assert_close(spread["state_dict"][name], value, rtol=1e-3, atol=1e-4)
    printed = call(home, "lab", "eval", "@last", "trainer.devices=1", "--json")
    metrics = json.loads(printed.splitlines()[-1])
    recorded = {name: records[1]["metrics"][name] for name in metrics}
    assert metrics == pytest.approx(recorded, abs=1e-5)
    assert "finished" in call(home, "lab", "resume", "@last", "trainer.max_epochs=3")


@pytest.mark.release
@pytest.mark.slow
def test_every_further_node_is_in_the_record(home):
    """Two processes that a launcher started, as if on two nodes."""
    call(home, "lab", "train", "trial=baseline", *SHORT)
    run_dir = last(home)["run_dir"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        "TORCHELASTIC_RUN_ID": "x",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }
    common |= {"GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    common |= {"LAB_RUN_DIR": run_dir, "LAB_NEXT_ATTEMPT": "2"}
    ranks = [
        start(home, command="rank", until=None, **common, RANK=n, GROUP_RANK=n)[0] for n in "01"
    ]
    said = [process.communicate(timeout=200)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said
    nodes = {
        path.name: json.loads(path.read_text())
        for path in Path(run_dir, "attempts/2").glob("node-*.json")
    }
    assert list(nodes) == ["node-1.json"], "the first node is in start.json"
    assert nodes["node-1.json"]["host"] == platform.node()
    assert nodes["node-1.json"]["pid"] == ranks[1].pid
    assert nodes["node-1.json"]["torch"] == torch.__version__


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
        loss_c = nn.functional.softplus(-self.critic(real)).mean()
        loss_c = loss_c + nn.functional.softplus(self.critic(fake.detach())).mean()
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


@pytest.mark.release
@pytest.mark.slow
def test_several_optimizers_stepped_by_hand(home):
    add_trial(
        home,
        "gan",
        config_yaml="task:\n  _target_: .task.GAN\n  n_latent: 6\ncheckpoint:\n  monitor: null\n",
        task_py=GAN,
    )
    bar = "callbacks.bar={_target_: lightning.pytorch.callbacks.TQDMProgressBar}"  # Lightning wants to be told of one
    assert "ok  gan" in call(home, "lab", "check", "trial=gan", bar)
    call(
        home,
        "lab",
        "train",
        "trial=gan",
        *SHORT,
        "trainer.test_after_fit=false",
        "log.every_n_steps=10",
    )
    record = last(home)
    assert record["status"] == "finished"
    logged = {name for row in rows(record) for name in row}
    assert {"train/critic", "train/generator", "train/own"} <= logged
    call(home, "lab", "resume", "@last", "trainer.max_epochs=3")
    states = torch.load(f"{record['run_dir']}/checkpoints/last.ckpt", weights_only=True)[
        "optimizer_states"
    ]
    assert len(states) == 2
    assert "this task steps its optimizers by itself" in call(
        home, "lab", "bench", "trial=gan", "--lr", rc=2
    )
    assert "gan's arguments" not in call(home, "lab", "train", "trial=gan", "task.n_latnt=3", rc=2)


@pytest.mark.release
@pytest.mark.slow
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
        config_yaml="defaults:\n  - override /data: theirs\ntask:\n  _target_: ${package}.theirs.Theirs\n",
    )
    call(home, "lab", "train", "trial=theirs", *SHORT)
    assert last(home)["status"] == "finished"
    call(home, "lab", "train", "trial=theirs", *SHORT, "trainer.devices=2")
    assert last(home)["status"] == "finished"


@pytest.mark.release
@pytest.mark.slow
def test_load_gives_the_model_of_a_run(home):
    code = (
        "from labrig import load\nimport torch\nmodel = load('@last')\n"
        "print(type(model).__name__, model.training, tuple(model(torch.zeros(2, 1, 8, 8)).shape))"
    )
    call(home, "lab", "train", "trial=baseline", *SHORT)
    assert "CNN False (2, 10)" in call(home, sys.executable, "-c", code)


@pytest.mark.release
@pytest.mark.slow
def test_a_run_of_a_renamed_package_loads_with_its_own_code(home, tmp_path):
    folder = copy_of(home, tmp_path / "myproj")
    call(folder, "lab", "train", "trial=baseline", *SHORT)
    (folder / "src/myproj").rename(folder / "src/nova")
    pyproject = folder / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("myproj", "nova"))
    code = (
        "from labrig import load\nimport sys, torch\n"
        "try:\n    load('@last')\nexcept Exception as error:\n    print(error)\n"
        "model = load('@last', frozen=True)\n"
        "print(tuple(model(torch.zeros(2, 1, 8, 8)).shape), 'myproj' in sys.modules,"
        " [path for path in sys.path if 'lab-frozen' in path])"
    )
    said = call(folder, sys.executable, "-c", code)
    assert "the package was called myproj then. Load it with its own code: load(" in said
    assert "(2, 10) False []\n" in said


@pytest.mark.release
@pytest.mark.slow
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
    assert re.search(r"─ wide +finished +\d+ ", tree)
