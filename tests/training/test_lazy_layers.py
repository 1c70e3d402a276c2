"""Networks whose sizes come with the first batch: they train as with Lightning alone, or it is said why not."""

from functools import partial

import lightning.pytorch as L
import pytest
import torch
from attempts import attempt, attempts
from foreign_tasks import (
    SETTINGS,
    LazyNet,
    LitModule,
    config_of,
    plain_lightning,
    same_weights,
    train,
)
from hydra_tree import make_tree
from labrig.bench.measure import n_bytes
from labrig.errors import LabError
from labrig.failure import describe
from labrig.training.check import check
from labrig.training.parts.accelerate import accelerate, n_parameters_of, sized_parameters
from labrig.training.parts.build import build_task
from labrig.training.parts.initialise import load_file
from labrig.training.parts.settings import resolve_settings
from labrig.training.watch.progress import describe_network
from omegaconf import OmegaConf

LAZY = "model._target_=foreign_tasks.LazyNet"
N_PARAMETERS = 64 * 16 + 16 + 16 * 10 + 10
SGD = "task.optimizer={_target_: torch.optim.SGD, _partial_: true, lr: 0.1}"


def test_the_weights_are_those_of_plain_lightning(tmp_path):
    net = "task.net={_target_: foreign_tasks.LazyNet}"
    task, *_ = train(config_of(tmp_path, "task._target_=foreign_tasks.LitModule", net, SGD))
    L.seed_everything(0, verbose=False)
    theirs = LitModule(LazyNet(), partial(torch.optim.SGD, lr=0.1))
    assert same_weights(task, plain_lightning(theirs, max_epochs=1))


@pytest.mark.slow
def test_the_first_lines_count_what_is_known(home, tmp_path, capsys):
    attempt(home, tmp_path, LAZY, "data._target_=attempts.PlainData", "trainer.max_epochs=1")
    lines = [line for line in capsys.readouterr().out.splitlines() if "Classifier of" in line]
    assert lines[0].startswith(
        "Classifier of LazyNet: 0 parameters and 4 tensors that the first batch sizes, 14 batches"
    )
    assert lines[1:] == [f"Classifier of LazyNet: {N_PARAMETERS:,} parameters"]


@pytest.mark.slow
def test_a_run_that_is_resumed_ends_alike(home, tmp_path):
    settings = (LAZY, "data._target_=attempts.PlainData", "trainer.max_epochs=2")
    whole = attempt(home, tmp_path / "whole", *settings)
    parts = attempts(home, tmp_path / "parts", *settings, stops=["train:5"])
    assert parts.differences(whole) == []


@pytest.mark.slow
def test_the_check_trains_it_and_counts(tmp_path):
    result = check(make_tree(tmp_path, {}), [*SETTINGS, LAZY])
    assert result.n_parameters == N_PARAMETERS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("speed.channels_last=true", "speed.channels_last needs every size"),
        ("trainer.devices=2", "training in 2 processes needs every size"),
        ("speed.fsdp=true trainer.devices=2", "training in 2 processes needs every size"),
    ],
)
def test_what_needs_sizes_before_is_refused_by_check_and_training(tmp_path, setting, reason):
    settings = [LAZY, *setting.split()]
    with pytest.raises(LabError) as refused:
        check(make_tree(tmp_path / "check", {}), [*SETTINGS, *settings])
    assert str(refused.value).startswith(reason)
    assert "that decides the size of model.2.weight and 3 more" in str(refused.value)
    config = resolve_settings(config_of(tmp_path / "train", *settings), first_attempt={}).config
    with pytest.raises(LabError, match=reason):
        accelerate(build_task(config), config)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Shown", "Later"])
def test_a_network_that_was_shown_a_sample_trains_in_two_processes(tmp_path, task):
    shown = (LAZY, f"task._target_=foreign_tasks.{task}", "trainer.devices=2")
    assert check(make_tree(tmp_path, {}), [*SETTINGS, *shown]).n_parameters == N_PARAMETERS


def test_other_weights_decide_the_sizes(tmp_path):
    """As `init_from` loads them."""
    source = LazyNet()
    source(torch.zeros(1, 1, 8, 8))
    torch.save(source.state_dict(), tmp_path / "weights.pt")
    task = build_task(config_of(tmp_path, LAZY))
    init = OmegaConf.create({"prefix": {}, "mismatch": "refuse"})
    match = load_file(task, tmp_path / "weights.pt", init)
    assert len(match.tensors) == 4
    assert same_weights(task.model, source)


def test_a_layer_that_no_batch_reaches_is_left_out_of_the_count():
    net = LazyNet()
    assert describe_network(net) == (
        "LazyNet: 0 parameters and 4 tensors that the first batch sizes"
    )
    assert n_parameters_of(net) == n_bytes(sized_parameters(net)) == 0
    net[2](torch.zeros(1, 64))
    assert n_parameters_of(net) == 64 * 16 + 16


def test_a_callback_that_needs_sizes_before_is_explained(tmp_path):
    with pytest.raises(ValueError, match="uninitialized parameter") as error:
        train(config_of(tmp_path, LAZY, "callbacks=ema"))
    assert "show the network one sample" in describe(error.value)
