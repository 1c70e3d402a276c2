"""What a training, an evaluation and a prediction refuse."""

from types import SimpleNamespace

import lightning.pytorch as L
import pytest
import torch
from labrig import errors
from labrig.cluster.submit.submit import check_points
from labrig.config.compose import finish_config
from labrig.errors import Failed, LabError, NotComparable
from labrig.project import Project
from labrig.sweep.definition import define_sweep
from labrig.training.check import check
from labrig.training.parts import accelerate, build, initialise
from labrig.training.parts.ddp import RanksEnvironment
from labrig.training.start import program
from labrig.training.start.command import train_command
from labrig.training.trained import load, predict
from labrig.training.trained.predictable import choose_split, choose_test_split, make_predictable
from labrig.training.trained.write_predictions import (
    PredictionWriter,
    as_fields,
    only_loader,
    refuse_missing,
)
from omegaconf import OmegaConf
from projects import project_in

ROWS = torch.zeros(3, 2)


def test_configurations_that_lack_a_part():
    project = Project(None, "myproj")
    with pytest.raises(LabError, match=r"no data chosen. Add `- data: NAME` to the defaults"):
        finish_config(OmegaConf.create({}), project, "wide")
    config = {"data": {}, "task": {"_target_": "myproj.task.Classifier"}}
    with pytest.raises(LabError, match=r"trial 'wide' has no model; add to its config.yaml"):
        finish_config(OmegaConf.create(config), project, "wide")


def test_parts_that_do_not_fit(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "refuse_program", lambda _: None)
    config = OmegaConf.create({"data": {"_target_": "builtins.dict"}})
    with pytest.raises(
        LabError, match=r"data._target_ is builtins.dict, a dict. It must be a LightningDataModule"
    ):
        build.build_data(config)
    task = L.LightningModule()
    task.scale = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(
        LabError, match=r"speed.fsdp: the task itself has the parameters \['scale'\]. Move them"
    ):
        accelerate.shard(task, task.configure_model)
    uneven = SimpleNamespace(even=False, world_size=3, n_nodes=2, local_size=2)
    with pytest.raises(
        LabError, match=r"3 processes on 2 nodes, 2 of them here: the nodes are uneven"
    ):
        RanksEnvironment(uneven)
    profile = OmegaConf.create({"profile": {"kind": "simple"}})
    with pytest.raises(
        LabError, match=r"profile=simple times the actions of a Trainer.*Use profile=cprofile"
    ):
        program.mark_lines(profile)


def test_initial_weights(monkeypatch):
    config = OmegaConf.create({"init_from": "a.ckpt", "init": {"mismatch": "skip", "prefix": {}}})
    monkeypatch.setattr(initialise, "whole_checkpoint", lambda _: None)
    now = {"source": "a.ckpt", "sha256": "2" * 64}
    monkeypatch.setattr(initialise, "resolve_weights", lambda *_: now)
    run = SimpleNamespace(id="one", checkpoints=None, record={"init_from": {"sha256": "1" * 64}})
    with pytest.raises(NotComparable, match=r"sha256 1111\w* then, 2222\w* now. Start a new run"):
        initialise.load_initial_weights(None, config, run)


def test_weights_that_are_gone_or_do_not_fit(monkeypatch, tmp_path):
    run = SimpleNamespace(id="one", checkpoints=tmp_path)
    with pytest.raises(
        LabError, match=r"run one has no checkpoint 'best'. It has: none, because it stopped"
    ):
        load.load_weights(None, run, "best")
    monkeypatch.setattr(load, "refuse_damaged", lambda _: None)
    torch.save({"state_dict": {"other": torch.zeros(1)}}, tmp_path / "best.ckpt")
    with pytest.raises(
        LabError, match=r"does not fit today's code of this trial(?s:.*)frozen=True"
    ):
        load.load_weights(torch.nn.Linear(1, 1), run, "best")


def test_predictions(tmp_path):
    with pytest.raises(
        LabError, match=r"has neither predict_step nor forward(?s:.*)Then: lab predict RUN --today"
    ):
        make_predictable(L.LightningModule())
    with pytest.raises(LabError, match=r"has no splits by name, so split=val means nothing"):
        choose_split(L.LightningDataModule(), "val")
    with pytest.raises(LabError, match=r"neither predict_dataloader nor test_dataloader. Add one"):
        choose_split(L.LightningDataModule(), None)
    with pytest.raises(LabError, match=r"predict_dataloader gave 2 loaders, expected one"):
        only_loader([1, 2])
    for name in ("row", "start"):
        with pytest.raises(LabError, match=rf"the field '{name}', which is ours.*Rename it"):
            as_fields({name: ROWS})
    with pytest.raises(LabError, match=r"gave an empty dict; expected a tensor for each field"):
        as_fields({})
    with pytest.raises(
        LabError, match=r"gave a single number as 'y'; expected a tensor with a row for each sample"
    ):
        as_fields({"y": torch.tensor(1.0)})
    with pytest.raises(Failed, match=r"only 3 of 4 samples were predicted. Nothing was written"):
        refuse_missing(ROWS, 4)


def test_predictions_of_several_processes():
    writer = PredictionWriter("one")
    strategy = SimpleNamespace(broadcast=lambda _: ("/", "two"))
    with pytest.raises(
        LabError, match=r"the processes mean different runs, two and one. Name the run by its id"
    ):
        writer.on_predict_start(SimpleNamespace(strategy=strategy), None)
    trainer = SimpleNamespace(world_size=2)
    with pytest.raises(
        LabError, match=r"does not say which samples a batch holds.*trainer.devices=1"
    ):
        writer.write_on_batch_end(trainer, None, ROWS, None)
    with pytest.raises(
        LabError, match=r"predict_step gave 3 rows of .* for 2 samples; expected one for each"
    ):
        writer.write_on_batch_end(trainer, None, ROWS, [0, 1])


@pytest.fixture
def no_tensorboard(monkeypatch):
    known = errors.find_spec
    monkeypatch.setattr(
        errors, "find_spec", lambda name: None if name == "tensorboard" else known(name)
    )


NO_TENSORBOARD = r"logger=tensorboard needs the package tensorboard: make add PACKAGE=tensorboard"


@pytest.mark.slow
def test_a_logger_without_its_package_is_refused_before_a_run(no_tensorboard, tmp_path):
    """audit-2, defect 1: it passed lab check, and the job died on the node."""
    project = project_in(tmp_path)
    words = ["trial=baseline", "logger=[csv,tensorboard]"]
    for batch in (False, True):
        with pytest.raises(LabError, match=NO_TENSORBOARD):
            check(project, words, batch=batch)
    with pytest.raises(LabError, match=NO_TENSORBOARD):
        train_command(project, words)
    with pytest.raises(LabError, match=NO_TENSORBOARD):
        define_sweep(project, [*words, "seed=1,2"])
    assert not (tmp_path / "runs").exists()


def test_one_process_of_an_allocation_for_two_makes_no_run(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    with pytest.raises(LabError, match=r"this allocation has 2 tasks"):
        train_command(project_in(tmp_path), ["trial=baseline"])
    assert not (tmp_path / "runs").exists()


def test_each_job_of_an_array_needs_the_packages_of_its_loggers(no_tensorboard, tmp_path):
    points = [
        SimpleNamespace(trial="x", origin={}, config=OmegaConf.create({"logger": {name: {}}}))
        for name in ("csv", "tensorboard")
    ]
    plan = SimpleNamespace(points=points, project=None, trains=True, after=None)
    with pytest.raises(LabError, match=NO_TENSORBOARD):
        check_points(plan, {}, tmp_path, batch=True)


class PlainData(L.LightningDataModule):
    """Loaders of one's own, without splits by name."""


def test_splits_of_data_without_names_and_folds_that_fail(monkeypatch, tmp_path):
    with pytest.raises(LabError, match=r"PlainData has no splits by name, so split=val means"):
        choose_test_split(PlainData(), "val")
    monkeypatch.setattr(predict, "with_kept_override", lambda *_: [])
    monkeypatch.setattr(predict, "code_to_run", lambda *_: None)
    monkeypatch.setattr(predict, "run_with_frozen_code", lambda *_: 1)
    options = SimpleNamespace(
        overrides=[], settings=[], split="val", data=None, checkpoint=None, today=False
    )
    run = SimpleNamespace(id="one", dir=tmp_path)
    with pytest.raises(Failed, match=r"the prediction of one failed, see above. Nothing was join"):
        predict.predict_member(None, run, options)
