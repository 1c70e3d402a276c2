"""Structured configs of a package of its own, with an enum, an optional value and a required one."""

import shutil
from pathlib import Path

import lightning.pytorch as L
import myproj
import pytest
import torch
from attempts import attempt, attempts
from foreign import Witness, by_lab, differences, own_modules
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from labrig.errors import LabError
from labrig.project import Project
from projects import copy_project, work_on

CODE = Path(__file__).parent / "structured"
NOISE = 0.1
TRIAL = f"""
defaults:
  - /task: regressor
  - override /data: sines
task:
  noise: {NOISE}
trainer:
  max_epochs: 3
checkpoint:
  monitor: val/mse
"""
BASE = ("trial=sines", "trainer=cpu", "trainer.threads=1", "log.every_n_steps=4")


@pytest.fixture
def structured(tmp_path, monkeypatch, module):
    """A project that registers the dataclasses, in which this process works."""
    folder = copy_project(tmp_path / "myproj")
    shutil.copy(CODE / "configs.py", folder / "src/myproj/conf/register.py")
    trial = folder / "src/myproj/trials/sines"
    trial.mkdir()
    (trial / "config.yaml").write_text(TRIAL)
    monkeypatch.setattr(module("config.hydra_loader"), "_registered", {})
    monkeypatch.setattr(myproj, "__path__", [*myproj.__path__, str(folder / "src/myproj")])
    work_on(Project(folder, "myproj"))
    with own_modules(CODE, "configs", "regressor", "myproj.conf"):
        yield folder


def plainly(folder, monkeypatch):
    """What a script with Hydra does."""
    monkeypatch.setattr(ConfigStore.instance(), "repo", dict(ConfigStore.instance().repo))
    import configs  # noqa: F401

    (folder / "primary.yaml").write_text("defaults: [{task: regressor}, {data: sines}, _self_]\n")
    with initialize_config_dir(str(folder), version_base="1.3"):
        config = compose("primary", [f"task.noise={NOISE}"])
    torch.set_num_threads(1)
    L.seed_everything(0, workers=True, verbose=False)
    data = instantiate(config.data)
    task = instantiate(config.task)
    witness = Witness()
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=3, callbacks=[witness], **dict.fromkeys(quiet, False)
    )
    trainer.fit(task, datamodule=data)
    return witness


def test_it_trains_as_by_plain_lightning(structured, tmp_path, monkeypatch):
    seen, _ = by_lab(structured, tmp_path / "run", base=BASE)
    assert differences(plainly(tmp_path, monkeypatch), seen) == []


@pytest.mark.release
@pytest.mark.slow
def test_a_stop_in_mid_epoch_changes_no_number(structured, tmp_path):
    settings = ("data.shuffle=true", "task.net.activation=relu")
    whole = attempt(structured, tmp_path / "whole", *settings, base=BASE)
    parts = attempts(structured, tmp_path / "parts", *settings, stops=["train:5"], base=BASE)
    assert whole.differences(parts) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("task.net.widths=[8,much]", "task.net.widths"),
        ("task.net.activation=gelu", "task.net.activation"),
        ("task.clip=hard", "task.clip"),
        ("task.optimizer.lrr=1", "lrr"),
    ],
)
def test_a_value_of_another_type_is_refused(structured, tmp_path, setting, said):
    with pytest.raises(LabError, match=said):
        attempt(structured, tmp_path / "run", setting, base=BASE)
