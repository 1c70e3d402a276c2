"""What is set of Lightning's Trainer is what happens: its effects on the run, the record and the lines."""

import gc
import json
import logging
import random
from pathlib import Path
from types import SimpleNamespace

import hydra
import lightning.pytorch as L
import numpy
import pytest
import torch
from attempts import attempt
from in_process import composed
from labrig.errors import LabError
from labrig.training.checkpoints.checkpoint import Checkpoints
from labrig.training.exact.plain_loaders import PlainLoaders
from labrig.training.parts import settings as settings_module
from labrig.training.parts.settings import resolve_auto, resolve_settings
from labrig.training.parts.trainer import SHOWN, consequences, plain_trainer, silence_lightning
from labrig.training.trained.write_predictions import refuse_limits
from myproj.data import Digits
from omegaconf import OmegaConf
from projects import PROJECT, call
from torch.utils.data import DataLoader
from trainings import last, rows

BASELINE = ("trial=baseline", "trainer.precision=32-true")
EPOCH = ("trainer.max_epochs=1",)
UNUSED = "strategy:\n  _target_: lightning.pytorch.strategies.DDPStrategy\n  find_unused_parameters: true\n"


def resolved(*words, first_attempt=None):
    config = composed(PROJECT, "trial=baseline", *words)
    return resolve_settings(config, first_attempt or {})


def trainer_of(*words, data=None):
    config = resolved(*words).config
    return plain_trainer(config, data or Digits("x.h5"), L.LightningModule(), callbacks=[])


@pytest.mark.slow
def test_a_validation_within_an_epoch_chooses_the_best_checkpoint(home, tmp_path, capsys):
    rising = ("optimizer=sgd", "schedule=constant", "optimizer.lr=3")
    done = attempt(
        home,
        tmp_path,
        *EPOCH,
        *rising,
        "trainer.val_check_interval=5",
        "model._target_=attempts.Net",
    )
    validated = {row["step"]: row["val/loss"] for row in done.rows if "val/loss" in row}
    assert list(validated) == [5, 10, 15, 20]
    best = torch.load(tmp_path / "checkpoints/best.ckpt", weights_only=True)
    assert best["global_step"] == min(validated, key=validated.get)
    assert best["global_step"] < 20, "the last one is not the best, else this proves nothing"
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line.startswith("validation after step 10  val/acc ")]
    assert len(shown) == 1
    assert f"val/loss {validated[10]:.4f}" in shown[0]
    assert "train/" not in shown[0]


@pytest.mark.slow
def test_validations_by_steps_count_optimizer_steps_and_end_with_the_last(home, tmp_path, capsys):
    """Also where a group of accumulated batches is short: 7 batches an epoch are 4 steps of 2."""
    words = ("trainer.max_epochs=-1", "trainer.max_steps=10", "trainer.limit_train_batches=7")
    words += ("trainer.accumulate_grad_batches=2", "schedule=constant")
    whole = attempt(home, tmp_path / "steps", *words, "trainer.val_every_steps=3")
    assert [row["step"] for row in whole.rows if "val/loss" in row] == [3, 6, 9, 10]
    assert "the weights are of step" not in capsys.readouterr().out
    attempt(home, tmp_path / "epochs", *words)
    assert "val/… is of step 8, the weights are of step 10: trainer.val" in capsys.readouterr().out


@pytest.mark.slow
def test_a_sanity_check_leaves_no_row_and_no_checkpoint(home, tmp_path):
    words = (*EPOCH, "trainer.limit_train_batches=4")
    plain = attempt(home, tmp_path / "plain", *words)
    checked = attempt(home, tmp_path / "checked", *words, "trainer.num_sanity_val_steps=3")
    assert checked.rows == plain.rows
    assert plain.differences(checked) == []


def test_data_without_a_length_has_no_infinite_batches(home, tmp_path, capsys):
    words = (*EPOCH, "data._target_=attempts.PlainData", "data.path=stream", "schedule=constant")
    attempt(home, tmp_path, *words)
    said = capsys.readouterr().out
    assert "parameters, an epoch ends with its data" in said
    assert "inf" not in said.split("epoch 1/1")[0]


def test_a_schedule_that_wants_the_number_of_steps_says_that_there_is_none(home, tmp_path):
    words = ("trainer.max_epochs=-1", "trainer.max_time={seconds: 1}")
    task = "task._target_=myproj.task.Classifier"
    with pytest.raises(LabError, match=r"schedule wants n_steps.*Set trainer.max_steps=N"):
        attempt(home, tmp_path, *words, task)


@pytest.mark.slow
def test_max_time_ends_a_run_and_is_told(home, tmp_path, capsys):
    words = ("trainer.max_epochs=-1", "schedule=constant")
    attempt(home, tmp_path, *words, "trainer.max_time={seconds: 60}", stop="train:3")
    ended = attempt(home, tmp_path, *words, "trainer.max_time={seconds: 1}")
    said = capsys.readouterr().out
    assert "trainer.max_time ends the run by the clock" in said
    assert "the time of the Timer is over (trainer.max_time)" in said
    assert ended.start["inexact_because"] == ["trainer.max_time ends the run by the clock"]
    assert ended.checkpoint["callbacks"]["Timer"]["time_elapsed"]["train"] >= 1


@pytest.mark.slow
def test_loaders_of_another_epoch_are_told(home, tmp_path):
    words = (
        "trainer.max_epochs=2",
        "data._target_=attempts.PlainData",
        "trainer.reload_dataloaders_every_n_epochs=2",
    )
    attempt(home, tmp_path, *words, stop="train:20")
    resumed = attempt(home, tmp_path, *words)
    reasons = resumed.start["inexact_because"]
    assert [why for why in reasons if why.endswith("the loaders of epoch 1 were made in epoch 2")]


def test_loaders_that_were_replaced_are_forgotten():
    """Their workers would live until the end of the run."""
    loaders = PlainLoaders(0)
    loader = DataLoader(range(4))
    loaders.orders[loader] = None
    del loader
    gc.collect()
    assert len(loaders.orders) == 0


CONTRADICTIONS = [
    (["speed.fsdp=true", "trainer.strategy=fsdp"], "speed.fsdp=true and trainer.strategy exclude"),
    (
        ["speed.tensor_parallel=2", "trainer.strategy=ddp"],
        "speed.tensor_parallel=2 and trainer.strategy exclude",
    ),
    (["checkpoint.sharded=true"], "checkpoint.sharded=true needs processes that hold parts"),
    (["profile=simple", "trainer.profiler=simple"], "profile=simple and trainer.profiler exclude"),
    (
        [
            "trainer.precision=bf16-mixed",
            "trainer.plugins={_target_: lightning.pytorch.plugins.DoublePrecision}",
        ],
        "trainer.plugins sets the precision 64-true, and trainer.precision bf16-mixed",
    ),
    (
        ["trainer.plugins={_target_: lightning.pytorch.plugins.Nothing}"],
        "trainer.plugins: cannot build",
    ),
    (
        ["trainer.devices=2", "trainer.val_check_interval='00:00:10:00'"],
        "processes that disagree wait for ever",
    ),
    (
        ["trainer.val_every_steps=5", "trainer.val_check_interval=5"],
        "trainer.val_every_steps and trainer.val_check_interval exclude each other",
    ),
]


@pytest.mark.parametrize(("words", "said"), CONTRADICTIONS)
def test_settings_that_exclude_each_other_are_refused(words, said):
    with pytest.raises(LabError, match=said):
        resolved(*words)


REFUSED = [
    (["trainer.use_distributed_sampler=true"], "has no meaning for Digits"),
    (["trainer.val_check_interval=2.5"], "Lightning refuses these settings.*val_check_interval"),
    (
        ["trainer.plugins={_target_: lightning.pytorch.plugins.TorchCheckpointIO}"],
        "trainer.plugins: TorchCheckpointIO takes the place of labrig's own",
    ),
    (["trainer.strategy={_target_: lightning.pytorch.strategies.DDPStrategi}"], "cannot build"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_cannot_be_built_is_refused(words, said):
    with pytest.raises(LabError, match=said):
        trainer_of(*words)


def test_a_recorded_section_is_checked_too():
    """A configuration that was not composed here, such as that of --config FILE."""
    config = OmegaConf.merge(resolved().config, {"trainer": {"logger": False}})
    with pytest.raises(LabError, match=r"trainer.logger cannot be set"):
        plain_trainer(config, Digits("x.h5"), L.LightningModule(), callbacks=[])
    config = OmegaConf.merge(resolved().config, {"trainer": {"val_chek_interval": 1}})
    with pytest.raises(LabError, match=r"Lightning refuses these settings.*val_chek_interval"):
        plain_trainer(config, Digits("x.h5"), L.LightningModule(), callbacks=[])


def test_no_argument_is_given_twice():
    """What a command sets for its own purpose wins over the section, and raises no TypeError."""
    config = resolved("trainer.strategy=ddp", "trainer.fast_dev_run=3").config
    data = Digits("x.h5")
    trainer = plain_trainer(
        config, data, L.LightningModule(), callbacks=[], fast_dev_run=1, strategy="auto"
    )
    assert trainer.fast_dev_run is True
    assert type(trainer.strategy).__name__ == "SingleDeviceStrategy"


@pytest.mark.slow
def test_a_plugin_sets_the_precision_and_the_record_knows_it():
    double = "trainer.plugins=[{_target_: lightning.pytorch.plugins.DoublePrecision}]"
    assert resolved(double).chosen.precision == "64-true"
    assert trainer_of(double).precision == "64-true"
    mixed = (
        "{_target_: lightning.pytorch.plugins.MixedPrecision, precision: bf16-mixed, device: cpu}"
    )
    assert resolved(f"trainer.plugins={mixed}").chosen.precision == "bf16-mixed"


@pytest.mark.slow
def test_a_number_of_devices_may_be_all_or_a_text():
    assert resolved("trainer.devices=-1").chosen.devices == 1, "there is one CPU"
    assert resolved("trainer.devices='2'").chosen.devices == 2
    assert resolved("trainer.precision=null").chosen.precision == "32-true"


def test_devices_that_a_launcher_has_decided_are_told(monkeypatch, capsys):
    ranks = SimpleNamespace(world_size=2, local_size=2, rank=0, n_nodes=1)
    monkeypatch.setattr(settings_module, "discover", lambda: ranks)
    config = composed(PROJECT, *BASELINE, "trainer.devices=4")
    assert resolve_auto(config, {}).trainer.devices == 2
    said = capsys.readouterr().out
    assert "trainer.devices=4 has no effect here: 2 processes were started on this node" in said
    resolve_auto(composed(PROJECT, *BASELINE), {})
    assert "no effect" not in capsys.readouterr().out


def test_settings_with_consequences_are_told():
    assert consequences(OmegaConf.create({"val_check_interval": 5, "max_time": None})) == []
    few = {"max_epochs": 2, "check_val_every_n_epoch": 5}
    (line,) = consequences(OmegaConf.create(few))
    assert "no best.ckpt. Set trainer.check_val_every_n_epoch=1" in line
    assert consequences(OmegaConf.create(few | {"max_epochs": 5})) == []
    (line,) = consequences(OmegaConf.create({"fast_dev_run": 2}))
    assert "Lightning writes no metrics then" in line
    (line,) = consequences(OmegaConf.create({"val_check_interval": "00:00:01:00"}))
    assert "validates by the clock" in line


def test_a_file_of_predictions_holds_every_sample():
    for trainer in (
        {"limit_predict_batches": 1},
        {"limit_predict_batches": 0.5},
        {"fast_dev_run": 1},
    ):
        with pytest.raises(LabError, match="a file of predictions holds every sample"):
            refuse_limits(OmegaConf.create(trainer))
    refuse_limits(OmegaConf.create({"limit_predict_batches": 1.0, "fast_dev_run": False}))


def test_a_strategy_that_writes_directories_is_refused_at_the_first_checkpoint(tmp_path):
    """One that the configuration does not show, such as a class of one's own."""
    checkpoints = Checkpoints(tmp_path, every_min=1, monitor=None, mode="min")
    trainer = SimpleNamespace(save_checkpoint=Path.mkdir, strategy=object())
    with pytest.raises(LabError, match=r"last.ckpt is a directory: trainer.strategy=object writes"):
        checkpoints.save_now(trainer)


def test_what_a_user_has_asked_lightning_for_is_printed():
    silence_lightning()
    assert logging.getLogger("lightning.pytorch").level == logging.ERROR
    assert all(logging.getLogger(name).level == logging.INFO for name in SHOWN)


@pytest.mark.slow
def test_the_check_shows_a_summary_and_a_profile(home):
    words = ("trial=baseline", "trainer=cpu", "trainer.threads=1")
    said = call(
        home, "lab", "check", *words, "trainer.enable_model_summary=true", "trainer.profiler=simple"
    )
    assert "FIT Profiler Report" in said
    assert "Total params" in said


@pytest.mark.release
@pytest.mark.slow
def test_an_option_with_a_strategy_trains_on_two_ranks(home):
    """That was: TypeError … multiple values for keyword argument 'strategy'."""
    folder = home / "src/myproj/conf/trainer"
    folder.mkdir(exist_ok=True)
    (folder / "unused.yaml").write_text(f"accelerator: cpu\nprecision: auto\n{UNUSED}")
    words = ("trainer=unused", "trainer.devices=2", "trainer.threads=1", "trainer.max_epochs=1")
    more = ("trainer.val_check_interval=0.5", "trainer.num_sanity_val_steps=1")
    call(home, "lab", "train", "trial=baseline", *words, *more)
    record = last(home)
    start = json.loads((Path(record["run_dir"]) / "attempts/1/start.json").read_text())
    assert start["world_size"] == 2
    assert [row["step"] for row in rows(record) if "val/loss" in row] == [6, 12]


@pytest.mark.slow
def test_a_seed_is_that_of_every_generator():
    drawn = []
    for seed in (5, 5, 6):
        settings_module.apply_settings(resolved("trainer=cpu", f"seed={seed}").config)
        of_numpy = float(numpy.random.rand())  # noqa: NPY002 (what users call)
        drawn.append((random.random(), of_numpy, float(torch.rand(()))))
    assert drawn[0] == drawn[1]
    assert all(one != other for one, other in zip(drawn[1], drawn[2], strict=True))


def test_sgd_is_torchs():
    optimizer = composed(PROJECT, "trial=baseline", "optimizer=sgd").optimizer
    assert hydra.utils.get_class(optimizer._target_) is torch.optim.SGD
