"""What the section `task` names is what trains; the project's sections fill only what it leaves open."""

from functools import partial

import lightning.pytorch as L
import pytest
import torch
from attempts import Net, attempt
from foreign_tasks import SETTINGS, LitModule, config_of, plain_lightning, same_weights, train
from hydra_tree import make_tree
from labrig.config.compose import compose
from labrig.errors import LabError
from labrig.record.list.show import format_trained_with
from labrig.training.check import check, format_result
from labrig.training.parts.build import build_task, filled_sections

ADAM = "task.optimizer={_target_: torch.optim.Adam, _partial_: true, lr: 0.002}"
LIT = ("task._target_=foreign_tasks.LitModule", "task.net={_target_: attempts.Net}", ADAM)
STEPS = "task.scheduler={_target_: torch.optim.lr_scheduler.StepLR, _partial_: true, step_size: 3}"


def told(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("lab: ")]


def test_the_optimizer_of_the_task_trains_and_gives_the_weights_of_plain_lightning(
    tmp_path, capsys
):
    config = config_of(tmp_path, *LIT, STEPS)
    task, trainer, recorded = train(config)
    (optimizer,) = trainer.optimizers
    assert type(optimizer) is torch.optim.Adam
    assert optimizer.defaults["lr"] == 0.002
    assert recorded["optimizer"] == {"classes": ["Adam"], "decided_by": "task.optimizer"}
    assert recorded["schedule"] == {"classes": ["StepLR"], "decided_by": "the task"}
    assert told(capsys) == [
        "lab: the section model (attempts.Net) has no effect: "
        "LitModule.__init__ has no argument 'model'.",
        "lab: the section optimizer (torch.optim.AdamW) has no effect: task.optimizer wins. "
        "It trains with Adam.",
        "lab: the section schedule (labrig.task.warmup_cosine) has no effect: "
        "LitModule.__init__ has no argument 'schedule'. It trains with StepLR.",
    ]
    L.seed_everything(0, verbose=False)
    theirs = LitModule(
        Net(),
        partial(torch.optim.Adam, lr=0.002),
        partial(torch.optim.lr_scheduler.StepLR, step_size=3),
    )
    assert same_weights(task, plain_lightning(theirs, max_epochs=1))


def test_the_record_says_what_trained(home, tmp_path):
    data = "data._target_=attempts.PlainData"
    outcome = attempt(home, tmp_path, "trainer.max_epochs=1", data, ADAM)
    parts = outcome.start["trained_with"]
    assert parts["optimizer"] == {"classes": ["Adam"], "decided_by": "task.optimizer"}
    assert outcome.checkpoint["optimizer_states"][0]["param_groups"][0]["initial_lr"] == 0.002
    assert format_trained_with(parts) == "trained with optimizer Adam (task.optimizer)"
    usual = {"optimizer": {"classes": ["AdamW"], "decided_by": "optimizer"}}
    assert format_trained_with(usual) is None


@pytest.mark.slow
def test_what_is_typed_for_the_task_wins_too(tmp_path, capsys):
    """The class of the optimizer alone, then its settings, in any order."""
    typed = (
        "task.optimizer.lr=0.5",
        "task.optimizer._target_=torch.optim.SGD",
        "task.optimizer._partial_=true",
    )
    _, trainer, recorded = train(config_of(tmp_path, *typed))
    (optimizer,) = trainer.optimizers
    assert type(optimizer) is torch.optim.SGD
    assert optimizer.defaults["lr"] == 0.5
    assert recorded["model"] == {"classes": ["Net"], "decided_by": "model"}
    assert recorded["optimizer"] == {"classes": ["SGD"], "decided_by": "task.optimizer"}
    assert recorded["schedule"] == {"classes": ["LambdaLR"], "decided_by": "schedule"}
    (line,) = told(capsys)
    assert "the section optimizer (torch.optim.AdamW) has no effect: task.optimizer wins." in line


def test_a_null_of_the_task_wins(tmp_path, capsys):
    _, trainer, recorded = train(config_of(tmp_path, "task.schedule=null"), ["schedule=cosine"])
    assert trainer.lr_scheduler_configs == []
    assert recorded["schedule"] == {"classes": [], "decided_by": "task.schedule"}
    assert told(capsys) == [
        "lab: schedule=cosine has no effect: task.schedule wins. It trains with none."
    ]


def test_a_model_of_the_task_wins(tmp_path, capsys):
    task, *_ = train(config_of(tmp_path, "task.model={_target_: attempts.Net}"))
    assert type(task.model) is Net
    (line,) = told(capsys)
    assert line == "lab: the section model (attempts.Net) has no effect: task.model wins."


@pytest.mark.parametrize(
    ("name", "filled", "is_constant"),
    [
        ("Odd", ("model", "optimizer", "schedule"), False),
        ("Constant", ("model", "optimizer"), True),
    ],
)
def test_parameters_behind_kwargs_of_a_base_are_filled(tmp_path, name, filled, is_constant):
    """A schedule that the class itself passes on is its own."""
    chosen = (f"task._target_=foreign_tasks.{name}", "+task.value=0.5")
    config = config_of(tmp_path, *chosen)
    assert filled_sections(config) == filled
    task, trainer, recorded = train(config)
    assert task.value == 0.5
    assert recorded["optimizer"] == {"classes": ["AdamW"], "decided_by": "optimizer"}
    assert (trainer.lr_scheduler_configs == []) is is_constant


def test_kwargs_that_go_elsewhere_are_not_filled(tmp_path):
    chosen = "task._target_=foreign_tasks.OwnNet"
    config = config_of(tmp_path, chosen, "+task.in_features=4", "+task.out_features=2")
    assert filled_sections(config) == ()
    assert build_task(config).model.in_features == 4


def test_a_default_of_the_task_stays_and_none_is_filled(tmp_path, capsys):
    config = config_of(tmp_path, "task._target_=foreign_tasks.Named")
    assert filled_sections(config) == ("model", "schedule")
    _, trainer, recorded = train(config, ["optimizer.lr=5"])
    assert type(trainer.optimizers[0]) is torch.optim.SGD
    assert recorded["optimizer"] == {"classes": ["SGD"], "decided_by": "the default of the task"}
    assert told(capsys) == [
        "lab: optimizer.lr=5 has no effect: Named.__init__ has the default optimizer='sgd'. "
        "To use the section: 'task.optimizer=${optimizer}'. It trains with SGD.",
        "lab: schedule of Named is the section schedule (labrig.task.warmup_cosine), "
        "not its default None. To keep the default: task.schedule=null",
    ]


@pytest.mark.slow
def test_the_section_can_be_chosen_in_place_of_a_default(tmp_path):
    given = ("task._target_=myproj.task.Classifier", "task.optimizer=${optimizer}")
    _, trainer, recorded = train(config_of(tmp_path, *given))
    assert type(trainer.optimizers[0]) is torch.optim.AdamW
    assert recorded["optimizer"]["decided_by"] == "task.optimizer"


@pytest.mark.slow
def test_a_scaled_learning_rate_that_nobody_uses_is_told(tmp_path, capsys):
    train(config_of(tmp_path, ADAM, "batch.scale_lr=true"))
    assert any(line.startswith("lab: batch.scale_lr has no effect") for line in told(capsys))


@pytest.mark.slow
def test_the_check_says_what_is_filled(tmp_path):
    settings = [*SETTINGS, ADAM, "task.schedule=null"]
    result = check(make_tree(tmp_path, {}), settings)
    assert result.sections == ("model",)
    assert format_result(result).endswith("\n    sections that Classifier is given: model")


def test_a_method_of_a_class_makes_a_task(tmp_path):
    config = config_of(tmp_path, "task._target_=foreign_tasks.Made.small")
    assert filled_sections(config) == ("model", "optimizer")
    assert type(build_task(config)) is LitModule
    nothing = config_of(tmp_path / "other", "task._target_=foreign_tasks.Made.nothing")
    with pytest.raises(LabError, match=r"a int. It must be a LightningModule"):
        build_task(nothing)


LACKING = {
    "task.optimizer._target_=torch.optim.SGD": "'params'\nThe task gives it that: write `_partial_",
    "task._target_=foreign_tasks.LitModule": "'net'\nWrite a value for task.net.",
    "task._target_=foreign_tasks.Loose +task.valu=1": "'valu'; did you mean: value",  # or as Python says it
}


@pytest.mark.parametrize("typed", LACKING)
def test_an_argument_that_only_the_class_can_judge_is_explained(tmp_path, typed):
    with pytest.raises(LabError) as refused:
        build_task(config_of(tmp_path, *typed.split()))
    said = str(refused.value).replace(". Did you mean 'value'?", "; did you mean: value")
    assert LACKING[typed] in said


LIGHTNING_MODEL = {
    "trials/lit/model.py": """
        import lightning as L

        class Lit(L.LightningModule):
            def __init__(self, width=3):
                super().__init__()
    """,
    "trials/lit/config.yaml": "model: {_target_: .model.Lit, width: 4}\n",
}


def test_a_lightning_module_as_a_model_is_refused_before_torch_is_needed(tmp_path):
    with pytest.raises(LabError) as refused:
        compose(make_tree(tmp_path, LIGHTNING_MODEL), ["trial=lit"])
    text = str(refused.value)
    assert text.startswith("model._target_ is myproj.trials.lit.model.Lit, a LightningModule.")
    assert "\ntask:\n  _target_: .model.Lit\n" in text


def test_where_only_the_class_shows_it_the_model_is_refused_when_it_is_built(tmp_path):
    config = config_of(
        tmp_path, "model._target_=lightning.pytorch.demos.boring_classes.BoringModel"
    )
    with pytest.raises(LabError, match=r"\ntask:\n  _target_: lightning.pytorch.demos.boring_cl"):
        build_task(config)


def test_a_lightning_module_may_be_the_network_of_a_task_that_says_so(tmp_path):
    boring = "task.model={_target_: lightning.pytorch.demos.boring_classes.BoringModel}"
    config = config_of(tmp_path, "task._target_=foreign_tasks.Wrapped", boring)
    assert isinstance(build_task(config).model, L.LightningModule)
