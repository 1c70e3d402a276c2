"""Settings: where the options of a group may lie, and what each key that makes a step faster or smaller changes."""

import copy
import os
import sys
from dataclasses import asdict
from unittest import mock

import lightning
import pytest
import torch
from in_process import (
    BASELINE,
    COLOUR,
    LINEAR,
    ONE_EPOCH,
    PLAIN_SGD,
    composed,
    difference,
    flat,
    learn,
)
from labrig.errors import LabError
from labrig.machine.resources import cores
from labrig.project import Project
from labrig.training.check import check
from labrig.training.parts.accelerate import accelerate, matching_modules
from labrig.training.parts.build import build_task
from labrig.training.parts.settings import (
    apply_settings,
    resolve_auto,
    resolve_settings,
    scale_to_processes,
)
from omegaconf import OmegaConf
from projects import call
from torch import nn

LION = "_target_: torch.optim.AdamW\n_partial_: true\nlr: {lr}\n"
ONE_BATCH = "trainer.limit_train_batches=1"
THREE_BATCHES = "trainer.limit_train_batches=3"


@pytest.fixture(autouse=True)
def torch_as_before():
    """Undoes what apply_settings does to this process."""
    n_threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    with mock.patch.dict(os.environ):
        yield
    torch.set_num_threads(n_threads)
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.benchmark = False


# ---------------------------------------------------------------- options of a group


@pytest.mark.release
@pytest.mark.slow
def test_options_are_files_and_the_projects_own_come_first(own_project):
    folder = own_project / "src/myproj/conf/optimizer"
    folder.mkdir()
    (folder / "lion.yaml").write_text(LION.format(lr=0.5))
    (folder / "sgd.yaml").write_text(LION.format(lr=0.25))

    def origin(option):
        return call(
            own_project, "lab", "config", "trial=baseline", f"optimizer={option}", "--origin"
        )

    assert "optimizer.lr=0.5  # src/myproj/conf/optimizer/lion.yaml" in origin("lion")
    assert "optimizer.lr=0.25  # src/myproj/conf/optimizer/sgd.yaml" in origin("sgd"), (
        "in place of the template's"
    )
    assert "optimizer.lr=0.001  # labrig/conf/optimizer/adam.yaml" in origin("adam")
    assert "momentum" not in origin("sgd")
    said = call(own_project, "lab", "config", "trial=baseline", "optimizer=lyon", rc=2)
    assert "did you mean: lion. Options of optimizer: adam, adamw, lamb, lars, lion, sgd" in said


# ---------------------------------------------------------------- resolved for this machine


def test_resolving_gives_a_new_configuration(home):
    config = composed(
        home, *BASELINE, "trainer.threads=auto", "trainer.devices=2", "batch.scale_lr=true"
    )
    before = copy.deepcopy(config)
    settings = resolve_settings(config, first_attempt={"precision": "bf16-mixed"})
    assert config == before
    assert settings.config.optimizer.lr == 2 * config.optimizer.lr
    assert "auto" not in asdict(settings.chosen).values()
    assert settings.chosen.precision == "bf16-mixed", "as the first attempt chose"
    assert settings.chosen.samples_per_step == 2 * 64


def test_threads_follow_what_was_exported(home, monkeypatch):
    config = composed(home, *BASELINE, "trainer.threads=auto")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert resolve_auto(config, {}).trainer.threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1000")
    assert resolve_auto(config, {}).trainer.threads == cores()


@pytest.mark.slow
def test_seed_threads_and_kernels_are_set_for_the_process(home):
    def first_number(*overrides):
        apply_settings(composed(home, *BASELINE, *overrides))
        return torch.rand(()).item()

    assert first_number("seed=1") == first_number("seed=1") != first_number("seed=2")
    first_number("trainer.threads=1", "trainer.matmul_precision=medium")
    assert torch.get_num_threads() == 1
    assert torch.get_float32_matmul_precision() == "medium"
    first_number("record.deterministic=true")
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"]


@pytest.mark.parametrize(
    ("setting", "searches"),
    [
        ("speed.cudnn_benchmark=auto", True),
        ("speed.cudnn_benchmark=false", False),
        ("record.deterministic=true", False),
    ],
)
def test_cudnn_searches_for_kernels_unless_they_must_be_the_same(home, setting, searches):
    apply_settings(composed(home, *BASELINE, setting))
    assert torch.backends.cudnn.benchmark is searches


def test_the_learning_rate_follows_the_number_of_processes(home):
    config = composed(
        home, *LINEAR, "batch.scale_lr=true", "trainer.devices=2", "schedule=onecycle"
    )
    scaled = scale_to_processes(config)
    assert (scaled.optimizer.lr, scaled.schedule.max_lr) == (0.002, 0.002)


REFUSED = {
    "batch.global=100": "64, 128, 192",
    "batch.global=128 batch.scale_lr=true": "batch.scale_lr",
    "batch.global=128 trainer.accumulate_grad_batches=2": "trainer.accumulate_grad_batches",
    "speed.compile=max-autotun": "did you mean: max-autotune",
    "speed.checkpoint_activations=[model.feature]": "did you mean: model.features",
    "speed.cudnn_benchmark=true record.deterministic=true": "record.deterministic",
}


@pytest.mark.parametrize("typed", REFUSED)
def test_wrong_use(home, typed):
    with pytest.raises(LabError) as refused:
        learn(home, *BASELINE, ONE_BATCH, *typed.split())
    assert REFUSED[typed] in str(refused.value)


def test_a_wrong_name_of_modules_is_told_the_lists_of_the_network():
    """As of a model of transformers, whose layers are called h, layers or blocks."""
    network = nn.Module()
    network.h = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    with pytest.raises(
        LabError, match=r"has no module '\*\.layers\.\*'.* lists of modules: h\.\*\. "
    ):
        matching_modules(network, "checkpoint_activations", ["*.layers.*"])


@pytest.mark.slow
def test_wrong_use_is_found_before_the_queue(home):
    wrong = "speed.checkpoint_activations=[model.head1]"
    said = call(home, "lab", "check", "trial=baseline", "trainer=cpu", wrong, rc=2)
    assert "did you mean: model.head" in said


@pytest.mark.slow
def test_the_check_does_not_use_the_users_train_py(home, monkeypatch):
    """Whatever train.py imports, and under which names: only `lab train` reads it."""
    monkeypatch.setitem(sys.modules, "myproj.train", None)
    overrides = [*BASELINE, *ONE_EPOCH, "batch.global=128", "speed.channels_last=true"]
    result = check(Project(home, "myproj"), overrides)
    assert result.trial == "baseline"
    assert result.n_parameters == 151_498


# ---------------------------------------------------------------- what each setting changes


@pytest.mark.slow
def test_the_global_batch_is_made_of_smaller_ones(home):
    equal = ("data.drop_last=true", *PLAIN_SGD)
    at_once = learn(home, *LINEAR, "data.batch_size=128", *equal)
    in_parts = learn(home, *LINEAR, "data.batch_size=32", "batch.global=128", *equal)
    assert difference(at_once, in_parts) < 1e-5
    assert at_once.trainer.global_step == in_parts.trainer.global_step == 11
    halves = composed(home, *LINEAR, "data.batch_size=32", "batch.global=128", "trainer.devices=2")
    assert scale_to_processes(halves).trainer.accumulate_grad_batches == 2


@pytest.mark.release
@pytest.mark.slow
def test_activations_are_made_twice_and_nothing_else_changes(home):
    kept = learn(home, *BASELINE, THREE_BATCHES)
    patterns = "[model.features,model.features.*]"
    made_again = learn(home, *BASELINE, THREE_BATCHES, f"speed.checkpoint_activations={patterns}")
    assert difference(kept, made_again) == 0
    assert (kept.witness.n_forwards, made_again.witness.n_forwards) == (3, 6)


@pytest.mark.slow
def test_images_and_filters_have_their_channels_last(home):
    usual = learn(home, *COLOUR, THREE_BATCHES)
    channels_last = learn(home, *COLOUR, THREE_BATCHES, "speed.channels_last=true")
    assert difference(usual, channels_last) < 1e-4
    for training, expected in ((usual, False), (channels_last, True)):
        assert training.witness.input_is_channels_last is expected
        assert (training.task.model.conv.weight.stride()[1] == 1) is expected


@pytest.mark.slow
def test_without_a_compiler_the_training_continues_uncompiled(home, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    training = learn(home, *LINEAR, ONE_BATCH, "speed.compile=default")
    assert "speed.compile is off: it needs the C++ compiler no-such-compiler" in training.printed
    assert training.trainer.global_step == 1


@pytest.mark.parametrize(
    ("precision", "dtype"), [("32-true", torch.float32), ("bf16-mixed", torch.bfloat16)]
)
def test_precision(home, precision, dtype):
    training = learn(home, *LINEAR, ONE_BATCH, f"trainer.precision={precision}")
    assert training.witness.output_dtype == dtype


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_clipped_step_is_as_long_as_the_limit(home, precision, fused):
    """A fused optimizer too; test_lean_loop.py has 16-mixed, which needs a scale."""
    precise = (f"trainer.precision={precision}", f"optimizer.fused={fused}")
    clip = ("optimizer.lr=1.0", "trainer.gradient_clip_val=0.01")
    clipped = learn(home, *LINEAR, ONE_BATCH, *PLAIN_SGD, *precise, *clip)
    assert clipped.witness.fused is fused
    assert "is off" not in clipped.printed
    step = flat(clipped.task) - clipped.witness.first_weights
    assert float(step.norm()) == pytest.approx(0.01, rel=0.01)


@pytest.mark.parametrize("fused", [True, False])
def test_fused_optimizers(home, fused):
    training = learn(home, *LINEAR, ONE_BATCH, f"optimizer.fused={fused}")
    assert training.witness.fused is fused


def test_with_another_release_a_fused_optimizer_is_off_where_it_is_refused(home, monkeypatch):
    monkeypatch.setattr(lightning, "__version__", "2.99.0")
    mixed = ("trainer.precision=bf16-mixed", "trainer.gradient_clip_val=1.0")
    training = learn(home, *LINEAR, ONE_BATCH, *mixed)
    assert "optimizer.fused is off" in training.printed
    assert not training.witness.fused


@pytest.mark.parametrize(("option", "name"), [("lars", "LARS"), ("lamb", "Lamb"), ("lion", "Lion")])
def test_optimizers_of_another_package(home, option, name):
    training = learn(home, *LINEAR, ONE_BATCH, f"optimizer={option}")
    assert type(training.witness.optimizer).__name__ == name


def test_onecycle_knows_the_number_of_steps(home):
    """Its peak is the optimizer's learning rate, so that one setting is enough for both."""
    settings = ("schedule=onecycle", "schedule.pct_start=0.25", "optimizer.lr=0.5")
    rates = learn(home, *LINEAR, *settings).witness.learning_rates
    assert len(rates) == 23
    assert rates.index(max(rates)) == pytest.approx(0.25 * 23, abs=1.5)
    assert max(rates) == pytest.approx(0.5, rel=0.05)


def test_cosine_ends_at_its_final_ratio(home):
    settings = ("schedule=cosine", "schedule.final_ratio=0.1", "trainer.max_epochs=2")
    rates = learn(home, *LINEAR, *settings).witness.learning_rates
    assert len(rates) == 46
    assert rates[0] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(1e-4, rel=0.05)


@pytest.mark.slow
def test_sync_batchnorm_is_for_cuda(home):
    on_cpu = learn(home, *LINEAR, ONE_BATCH, "speed.sync_batchnorm=true")
    assert "speed.sync_batchnorm is off" in on_cpu.printed
    config = composed(home, *BASELINE, "speed.sync_batchnorm=true")
    on_gpus = OmegaConf.merge(config, {"trainer": {"accelerator": "gpu", "devices": 2}})
    task = accelerate(build_task(config), on_gpus)
    assert sum(isinstance(part, nn.SyncBatchNorm) for part in task.modules()) == 2
