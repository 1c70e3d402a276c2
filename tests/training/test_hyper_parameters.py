"""`self.save_hyperparameters()` works as under Lightning, and checkpoints still hold plain types only."""

import json
from functools import partial

import lightning.pytorch as L
import pytest
import torch
from labrig.errors import LabError
from labrig.training.checkpoints import checkpoint as checkpoint_module
from labrig.training.checkpoints.checkpoint import NOT_IN_FILE, AtomicCheckpointIO, plain_checkpoint
from labrig.training.trained.load import complete_load_from_checkpoint
from omegaconf import DictConfig, ListConfig, OmegaConf
from projects import call
from torch import nn
from trainings import add_trial, last

complete_load_from_checkpoint()


class Kept(L.LightningModule):
    """All kinds of arguments, saved as the tutorials do it."""

    def __init__(self, net, optimizer, config, widths=(1, 2), rate=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = net

    def configure_optimizers(self):
        return self.hparams.optimizer(self.parameters())


class Configured(L.LightningModule):
    """Its hyperparameters are one configuration."""

    def __init__(self, config):
        super().__init__()
        self.save_hyperparameters(config)
        self.layer = nn.Linear(config.width, 1)


class Data(L.LightningDataModule):
    def __init__(self, transform, batch_size=3):
        super().__init__()
        self.save_hyperparameters(logger=False)


@pytest.fixture(autouse=True)
def told_anew():
    checkpoint_module.print_left_out.cache_clear()


def kept():
    config = OmegaConf.create({"width": 2, "deep": {"twice": "${..width}"}})
    return Kept(nn.Linear(2, 1), partial(torch.optim.SGD, lr=0.1), config, widths=[3, 4])


def saved(task, folder, data=None):
    """The checkpoint of a task, as a training writes it."""
    trainer = L.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[AtomicCheckpointIO()],
    )
    trainer.strategy.connect(task)
    trainer._data_connector.attach_datamodule(task, data)
    trainer.save_checkpoint(folder / "one.ckpt")
    trainer.save_checkpoint(folder / "two.ckpt", weights_only=True)
    return folder / "one.ckpt"


def test_what_is_not_plain_is_left_out_of_the_file_and_stays_in_the_task(tmp_path, capsys):
    task = kept()
    path = saved(task, tmp_path)
    for file in (path, tmp_path / "two.ckpt"):
        content = torch.load(file, weights_only=True)
        assert content["hyper_parameters"] == {
            "config": {"width": 2, "deep": {"twice": 2}},
            "widths": [3, 4],
            "rate": 0.1,
        }
        assert content[NOT_IN_FILE]["hyper_parameters"]["left_out"] == ["net", "optimizer"]
    assert task.hparams.net is task.net
    assert task.hparams.optimizer.keywords == {"lr": 0.1}
    assert isinstance(task.hparams.config, DictConfig)
    told = capsys.readouterr().out
    assert told.count("They leave out these hyperparameters: net, optimizer.") == 1, "once"


def test_plain_hyperparameters_need_no_word(tmp_path, capsys):
    checkpoint = {"hyper_parameters": {"lr": 0.1, "betas": (0.9, 0.99)}, "state_dict": {}}
    plain = plain_checkpoint(checkpoint)
    assert plain["hyper_parameters"] == checkpoint["hyper_parameters"]
    assert capsys.readouterr().out == ""


def test_something_else_that_is_not_plain_is_still_refused():
    with pytest.raises(LabError, match=r"checkpoint.callbacks.x is a function"):
        plain_checkpoint({"callbacks": {"x": lambda: None}})


def test_arguments_that_are_given_are_taken(tmp_path):
    """As under Lightning after `ignore=[...]`; what was a configuration is one again."""
    path = saved(kept(), tmp_path)
    net = nn.Linear(2, 1)
    loaded = Kept.load_from_checkpoint(path, net=net, optimizer=torch.optim.Adam, rate=0.5)
    assert loaded.net is net
    assert loaded.hparams.rate == 0.5
    assert loaded.hparams.config.deep.twice == 2
    assert torch.equal(
        loaded.net.weight, torch.load(path, weights_only=True)["state_dict"]["net.weight"]
    )


def test_what_is_left_out_is_asked_for_where_no_run_is_around(tmp_path):
    path = saved(kept(), tmp_path)
    with pytest.raises(LabError) as refused:
        Kept.load_from_checkpoint(path, net=nn.Linear(2, 1))
    assert "leaves out optimizer, and it lies in no directory of a run" in str(refused.value)
    assert "Kept.load_from_checkpoint('one.ckpt', optimizer=...)" in str(refused.value)


def test_a_configuration_alone_is_one_again(tmp_path):
    config = OmegaConf.create({"width": 5, "names": ["a"]})
    path = saved(Configured(config), tmp_path)
    assert torch.load(path, weights_only=True)["hyper_parameters"] == {"width": 5, "names": ["a"]}
    loaded = Configured.load_from_checkpoint(path)
    assert isinstance(loaded.hparams, DictConfig)
    assert isinstance(loaded.hparams.names, ListConfig)
    assert loaded.layer.in_features == 5


def test_hyperparameters_of_the_data_module_are_plain_too(tmp_path):
    data = Data(lambda x: x)
    path = saved(kept(), tmp_path, data)
    content = torch.load(path, weights_only=True)
    assert content["datamodule_hyper_parameters"] == {"batch_size": 3}
    loaded = Data.load_from_checkpoint(path, transform=abs)
    assert (loaded.hparams.transform, loaded.hparams.batch_size) == (abs, 3)


def test_checkpoints_of_lightning_itself_are_loaded_as_before(tmp_path):
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    task = kept()
    trainer.strategy.connect(task)
    trainer.save_checkpoint(tmp_path / "own.ckpt")
    loaded = Kept.load_from_checkpoint(tmp_path / "own.ckpt", weights_only=False)
    assert loaded.hparams.optimizer.keywords == {"lr": 0.1}
    with pytest.raises(TypeError, match="cannot be called on an instance"):
        task.load_from_checkpoint(tmp_path / "own.ckpt")


CONFIG = """
task:
  _target_: .task.Kept
  net: {_target_: .task.Net, width: 8}
  metrics:
    - {_target_: .task.Metric, k: 2}
  sizes: {a: [1, 2]}
optimizer: {lr: 0.002}
checkpoint: {monitor: null}
trainer: {max_epochs: 1, limit_train_batches: 3}
"""
TASK = '''
import lightning.pytorch as L
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


class Metric:
    def __init__(self, k):
        self.k = k


class Kept(L.LightningModule):
    """Nothing in it knows of labrig."""

    def __init__(self, net, optimizer, metrics, sizes):
        super().__init__()
        self.save_hyperparameters()
        self.net = net

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.hparams.net(batch[0]), batch[1])

    def test_step(self, batch, batch_idx):
        return {"loss": self.training_step(batch, batch_idx)}

    def configure_optimizers(self):
        return self.hparams.optimizer(self.parameters())
'''
LOOK = """
import json, sys
import torch
from labrig import load
from myproj.trials.kept.task import Kept
path = sys.argv[1]
weights = torch.load(path, weights_only=True)["state_dict"]
found = []
for task in (Kept.load_from_checkpoint(path), load("@last")):
    optimizer = task.configure_optimizers()
    same = all(torch.equal(value, weights[name]) for name, value in task.state_dict().items())
    rate = optimizer.param_groups[0]["lr"]
    found.append([same, rate, task.hparams.metrics[0].k, task.hparams.sizes, type(task).__name__])
print(json.dumps(found))
"""


@pytest.mark.release
@pytest.mark.slow
def test_a_run_is_loaded_with_what_its_configuration_builds(home):
    add_trial(home, "kept", config_yaml=CONFIG, task_py=TASK)
    words = ("trial=kept", "trainer=cpu", "trainer.threads=1", "logger=[csv,tensorboard]")
    said = call(home, "lab", "train", *words)
    assert said.count("They leave out these hyperparameters: net, optimizer, metrics.") == 1
    run_dir = last(home)["run_dir"]
    path = f"{run_dir}/checkpoints/last.ckpt"
    out = call(home, "python", "-W", "ignore", "-c", LOOK, path, PYTHONPATH="src")
    expected = [True, 0.002, 2, {"a": [1, 2]}, "Kept"]
    assert json.loads(out.splitlines()[-1]) == [expected, expected]
