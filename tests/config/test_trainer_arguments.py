"""Every argument of lightning.Trainer may be set under `trainer.`, or a line says what to set instead."""

import inspect
import json
from functools import cache
from types import SimpleNamespace

import lightning.pytorch as L
import pytest
import yaml
from in_process import composed
from labrig.config import trainer_arguments
from labrig.config.check import NewKeys, SettingsSource, check_keys
from labrig.config.compose import compose
from labrig.config.recorded import with_changes
from labrig.config.trainer_arguments import INSTEAD, duration_s, is_trainer_argument, trainer_names
from labrig.errors import LabError, nearest
from labrig.training.parts.trainer import NOT_LIGHTNINGS, plain_trainer
from omegaconf import OmegaConf
from projects import LIBRARY, PROJECT, call, project_in
from trainings import add_trial

SIGNATURE = inspect.signature(L.Trainer.__init__).parameters
LAB = yaml.safe_load((LIBRARY / "conf/lab.yaml").read_text(encoding="utf-8"))
UNUSED = {"find_unused_parameters": True}
OBJECT = {"_target_": "lightning.pytorch.strategies.DDPStrategy"} | UNUSED
# A value of each argument, other than its default, and what of the Trainer shows it.
VALUES = {
    "accelerator": ("cpu", lambda trainer: type(trainer.accelerator).__name__ == "CPUAccelerator"),
    "strategy": (OBJECT, lambda trainer: trainer.strategy._ddp_kwargs == UNUSED),
    "devices": (1, lambda trainer: trainer.num_devices == 1),
    "precision": ("bf16-mixed", lambda trainer: trainer.precision == "bf16-mixed"),
    "fast_dev_run": (3, lambda trainer: trainer.fast_dev_run == 3),
    "max_epochs": (7, lambda trainer: trainer.max_epochs == 7),
    "min_epochs": (2, lambda trainer: trainer.min_epochs == 2),
    "max_steps": (11, lambda trainer: trainer.max_steps == 11),
    "min_steps": (3, lambda trainer: trainer.min_steps == 3),
    "max_time": ("00:01:00:00", lambda trainer: timer(trainer).time_remaining() == 3600),
    "limit_train_batches": (0.5, lambda trainer: trainer.limit_train_batches == 0.5),
    "limit_val_batches": (5, lambda trainer: trainer.limit_val_batches == 5),
    "limit_test_batches": (None, lambda trainer: trainer.limit_test_batches == 1.0),
    "limit_predict_batches": (4, lambda trainer: trainer.limit_predict_batches == 4),
    "overfit_batches": (2, lambda trainer: trainer.overfit_batches == 2),
    "val_check_interval": (0.25, lambda trainer: trainer.val_check_interval == 0.25),
    "check_val_every_n_epoch": (3, lambda trainer: trainer.check_val_every_n_epoch == 3),
    "num_sanity_val_steps": (2, lambda trainer: trainer.num_sanity_val_steps == 2),
    "enable_model_summary": (True, lambda trainer: has_callback(trainer, "ModelSummary")),
    "accumulate_grad_batches": (4, lambda trainer: trainer.accumulate_grad_batches == 4),
    "gradient_clip_val": (0.5, lambda trainer: trainer.gradient_clip_val == 0.5),
    "gradient_clip_algorithm": (
        "value",
        lambda trainer: trainer.gradient_clip_algorithm == "value",
    ),
    "inference_mode": (False, lambda trainer: not trainer.test_loop.inference_mode),
    "use_distributed_sampler": (
        False,
        lambda trainer: not trainer._accelerator_connector.use_distributed_sampler,
    ),
    "profiler": ("simple", lambda trainer: type(trainer.profiler).__name__ == "SimpleProfiler"),
    "detect_anomaly": (True, lambda trainer: trainer._detect_anomaly),
    "plugins": (
        [{"_target_": "lightning.pytorch.plugins.DoublePrecision"}],
        lambda trainer: trainer.precision == "64-true",
    ),
    "sync_batchnorm": (True, lambda trainer: trainer._accelerator_connector._layer_sync),
    "reload_dataloaders_every_n_epochs": (
        2,
        lambda trainer: trainer.reload_dataloaders_every_n_epochs == 2,
    ),
    "enable_autolog_hparams": (False, lambda trainer: not trainer.enable_autolog_hparams),
}
ALL = {name: value for name, (value, _) in VALUES.items()}


def timer(trainer):
    return next(one for one in trainer.callbacks if type(one).__name__ == "Timer")


def has_callback(trainer, name):
    return any(name in type(one).__name__ for one in trainer.callbacks)


def check(settings, new_keys=NewKeys.NONE):
    """Checks a section `trainer` of a file, after lab.yaml."""
    check_keys({"trainer": settings}, LAB, SettingsSource("a.yaml", new_keys=new_keys, lab=LAB))


@pytest.fixture
def own(tmp_path):
    return project_in(tmp_path)


def test_the_names_are_those_of_the_installed_lightning():
    """A new one needs a value here, or a line that says what to set instead."""
    assert set(trainer_names()) == set(SIGNATURE) - {"self"}
    assert set(VALUES) | set(INSTEAD) == set(trainer_names())
    assert set(VALUES).isdisjoint(INSTEAD)


@pytest.mark.parametrize("found", [None, "elsewhere"])
def test_without_lightning_any_name_is_left_to_it(monkeypatch, tmp_path, found):
    trainer_names.cache_clear()
    package = found and SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(trainer_arguments, "find_spec", lambda name: package)
    try:
        assert trainer_names() == ()
        assert check({"anything": 1}) is None
        with pytest.raises(LabError, match="cannot be set"):
            check({"logger": False})
    finally:
        trainer_names.cache_clear()


@pytest.mark.parametrize("plus", ["", "++"])
def test_every_argument_may_be_typed(own, plus):
    typed = [f"{plus}trainer.{name}={in_grammar(value)}" for name, (value, _) in VALUES.items()]
    assert values_in(compose(own, ["trial=baseline", *typed])) == ALL


def test_an_argument_that_no_file_has_may_be_added(own):
    config = compose(own, ["trial=baseline", "+trainer.val_check_interval=0.25"]).config
    assert config.trainer.val_check_interval == 0.25


@pytest.mark.slow
def test_every_argument_may_stand_in_files(own):
    trial = own.source / "trials/baseline/config.yaml"
    trial.write_text(f"{trial.read_text()}\n{yaml.safe_dump({'trainer': ALL})}")
    assert values_in(compose(own, ["trial=baseline"])) == ALL
    add_trial(own.root, "plain", config_yaml="model: {_target_: torch.nn.Linear}\n")
    option = own.source / "conf/trainer/all.yaml"
    option.parent.mkdir(exist_ok=True)
    option.write_text(yaml.safe_dump(ALL))
    assert values_in(compose(own, ["trial=plain", "trainer=all", "trainer.max_epochs=7"])) == ALL
    main_file = own.source / "conf/config.yaml"
    in_flow = "\n".join(f"  {name}: {in_grammar(value)}" for name, value in ALL.items())
    text = main_file.read_text().replace("  max_epochs: 20\n", f"{in_flow}\n")
    main_file.write_text(text.replace(":{", ": {").replace("_:", "_: ").replace("rs:", "rs: "))
    assert values_in(compose(own, ["trial=plain"])) == ALL


def values_in(composition):
    found = OmegaConf.to_container(composition.config.trainer)
    return {name: found[name] for name in VALUES}


@cache
def config_of_baseline():
    return composed(PROJECT, "trial=baseline", "trainer.devices=1", "trainer.precision=32-true")


@pytest.mark.parametrize("name", VALUES)
def test_lightning_gets_what_was_set(name):
    value, is_there = VALUES[name]
    config = OmegaConf.merge(config_of_baseline(), {"trainer": {name: value}})
    # With a data module of one's own, since labrig's divides the samples itself.
    trainer = plain_trainer(config, L.LightningDataModule(), L.LightningModule(), callbacks=[])
    assert is_there(trainer)


@pytest.mark.parametrize("name", INSTEAD)
@pytest.mark.parametrize("source", NewKeys)
def test_what_the_library_sets_says_what_to_set_instead(name, source):
    """On the command line and in a trial, with + and in config.yaml, and in an option."""
    for value in (1, None, True, [], {}):
        with pytest.raises(LabError) as refused:
            check({name: value}, source)
        assert f"a.yaml: trainer.{name} cannot be set. Leave it out: {INSTEAD[name]}" in str(
            refused.value
        )


ON_DDP = "lightning.pytorch.strategies"
WRONG = [
    ({"max_steps": None}, "trainer.max_steps"),
    ({"limit_val_batches": True}, "trainer.limit_val_batches"),
    ({"strategy": "ddp_spawn"}, "Here each process starts by itself: trainer.strategy=ddp"),
    (
        {"strategy": "ddp_notebook_find_unused_parameters_true"},
        "starts by itself: trainer.strategy=ddp_find_unused_parameters_true",
    ),
    ({"strategy": "deepspeed_stage_2"}, "writes checkpoints as directories"),
    ({"strategy": {"_target_": "myproj.task.No"}}, "task.py defines no 'No'"),
    ({"devices": [1, 3]}, "CUDA_VISIBLE_DEVICES=1,3 lab train trainer.devices=2"),
    ({"devices": 0}, "trainer.devices must be a number of devices"),
    ({"gradient_clip_algorithm": "nrom"}, "did you mean: norm"),
    ({"val_chek_interval": 3}, "did you mean: trainer.val_check_interval"),
    ({"min_epoch": 3}, "did you mean: trainer.min_epochs"),
    ({"maxtime": 3}, "did you mean: trainer.max_time"),
]
# what Lightning knows, and is asked
LEFT_TO_LIGHTNING = [
    ({"val_check_interval": "often"}, "often"),
    ({"max_time": 12}, "trainer"),
    ({"max_time": "12:00"}, "12:00"),
    ({"max_time": {"weekss": 1}}, "weekss"),
    ({"strategy": "dpp"}, "dpp"),
    ({"strategy": {"find_unused_parameters": True}}, "find_unused_parameters"),
    ({"plugins": ["half"]}, "half"),
    ({"precision": "bf17"}, "bf17"),
    ({"profiler": "simpel"}, "simple"),
]
RIGHT = [
    {"devices": "auto"},
    {"devices": -1},
    {"devices": "2"},
    {"precision": 16},
    {"precision": "auto"},
    {"max_epochs": None},
    {"max_time": {"hours": 12}},
    {"val_check_interval": "00:00:30:00"},
    {"strategy": "DDP"},
    {"strategy": {"_target_": f"{ON_DDP}.FSDPStrategy"}},
    {"strategy": {"_target_": f"{ON_DDP}.FSDPStrategy", "state_dict_type": "sharded"}},
    {"strategy": {"_target_": f"{ON_DDP}.ModelParallelStrategy"}},
    {"strategy": "${oc.env:STRATEGY}"},
    {"plugins": {"_target_": "lightning.pytorch.plugins.DoublePrecision"}},
]


@pytest.mark.parametrize(("settings", "said"), WRONG)
@pytest.mark.parametrize("source", NewKeys)
def test_a_wrong_value_is_refused(settings, said, source):
    with pytest.raises(LabError) as refused:
        check(settings, source)
    assert said in str(refused.value)


@pytest.mark.parametrize(("settings", "said"), LEFT_TO_LIGHTNING)
def test_lightning_refuses_it_when_it_is_built(settings, said):
    assert check(settings) is None
    config = OmegaConf.merge(config_of_baseline(), {"trainer": settings})
    with pytest.raises(LabError, match="trainer") as refused:
        plain_trainer(config, L.LightningDataModule(), L.LightningModule(), callbacks=[])
    assert said in str(refused.value)


@pytest.mark.parametrize("settings", RIGHT)
def test_a_right_value_is_accepted(settings):
    assert check(settings) is None


@pytest.mark.parametrize("word", ["foo", "momentum", "n_gpus_per_rank", "find_learning_rate"])
def test_a_word_far_from_every_argument_has_no_hint(word):
    with pytest.raises(LabError) as refused:
        check({word: 1})
    assert f"unknown setting 'trainer.{word}'" in str(refused.value)
    assert "did you mean" not in str(refused.value)


def test_a_section_in_common_makes_no_name_nearer():
    """That was: val_check_interval; did you mean: trainer.accelerator."""
    assert nearest("trainer.val_check_interval", ["trainer.accelerator"]) == ""
    assert nearest("trainer.acelerator", ["trainer.accelerator"])
    assert nearest("trainr.accelerator", ["trainer.accelerator"])


@pytest.mark.slow
def test_parts_of_an_object_of_an_option_may_be_set(own):
    option = own.source / "conf/trainer/unused.yaml"
    option.parent.mkdir(exist_ok=True)
    text = {"accelerator": "cpu", "precision": "auto", "strategy": OBJECT}
    option.write_text(yaml.safe_dump(text))
    words = ["trial=baseline", "trainer=unused"]
    one = compose(own, [*words, "trainer.strategy.find_unused_parameters=false"])
    assert one.config.trainer.strategy == OBJECT | {"find_unused_parameters": False}
    other = compose(own, [*words, "trainer.strategy=ddp"])
    assert other.config.trainer.strategy == "ddp"


def test_a_resumed_or_evaluated_run_takes_arguments_that_it_has_not_recorded():
    recorded = OmegaConf.create({"trainer": {"max_epochs": 3, "test_after_fit": True}})
    changed = with_changes(recorded, ["trainer.inference_mode=false"], ("trainer.",), "")
    assert changed.trainer.inference_mode is False
    assert "inference_mode" not in recorded.trainer
    for setting, said in {
        "trainer.max_epochs=many": "a whole number",
        "trainer.logger=false": "cannot be set",
        "trainer.inferense_mode=true": "did you mean: trainer.inference_mode",
    }.items():
        with pytest.raises(LabError, match=said):
            with_changes(recorded, [setting], ("trainer.",), "")


def test_durations():
    assert duration_s("01:02:03:04") == 93784
    assert duration_s({"hours": 1, "minutes": 30}) == 5400
    assert [duration_s(value) for value in ("1:00", "x", {"hour": 1}, 3, 0.5, None)] == [None] * 6


def test_what_is_ours_is_no_argument_of_lightning():
    assert not [name for name in NOT_LIGHTNINGS if is_trainer_argument(f"trainer.{name}")]


@pytest.mark.slow
def test_lab_check_asks_lightning(home):
    said = call(home, "lab", "check", "trial=baseline", "trainer.profiler=simpel", rc=2)
    assert "Lightning refuses these settings" in said


def in_grammar(value):
    """A value as it is typed."""
    if isinstance(value, dict):
        items = [f"{key}:{in_grammar(item)}" for key, item in value.items()]
        return f"{{{','.join(items)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(in_grammar, value))}]"
    return json.dumps(value) if isinstance(value, bool | None) else str(value)
