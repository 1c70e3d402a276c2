"""Settings that take a few words, or numbers from a least one on, refuse everything else in one line."""

import pytest
import yaml
from labrig.config.check import Source, check_keys
from labrig.config.check_choice import CHOICES, LEAST, as_yaml
from labrig.errors import LabError
from projects import LIBRARY, call

CONF = LIBRARY / "conf"
LAB = yaml.safe_load((CONF / "lab.yaml").read_text(encoding="utf-8"))
LAB["logger"] = {}
for logger in ("mlflow", "wandb"):
    LAB["logger"] |= yaml.safe_load((CONF / f"logger/{logger}.yaml").read_text(encoding="utf-8"))


def check(name, value):
    for part in reversed(name.split(".")):
        value = {part: value}
    check_keys(value, LAB, Source("command line"))


def shipped(name):
    value = LAB
    for part in name.split("."):
        value = value[part]
    return value


@pytest.mark.parametrize("name", CHOICES)
def test_each_choice_is_accepted_and_nothing_else(name):
    assert shipped(name) in CHOICES[name]
    for choice in CHOICES[name]:
        check(name, choice)
    check(name, "${oc.env:MY_CHOICE}")
    with pytest.raises(LabError) as refused:
        check(name, "a word of mine")
    words = " or ".join(as_yaml(choice) for choice in CHOICES[name])
    assert str(refused.value) == f"command line: {name} must be {words}, but it is a word of mine"


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_a_number_below_the_least_is_refused(name, least):
    assert shipped(name) >= least
    check(name, least)
    with pytest.raises(LabError, match=f"{name} must be at least {least}, but it is -1"):
        check(name, -1)


def test_a_misspelt_choice_is_answered_with_the_nearest():
    with pytest.raises(LabError, match=r"checkpoint\.mode must be min or max.*did you mean: max"):
        check("checkpoint.mode", "maxi")
    with pytest.raises(
        LabError, match=r"speed\.skip_unused_hooks must be false or auto, but it is null"
    ):
        check("speed.skip_unused_hooks", None)
    with pytest.raises(
        LabError, match=r"log\.progress must be true or false or auto, but it is \['x'"
    ):
        check("log.progress", ["x"])


@pytest.mark.parametrize("setting", ["checkpoint.mode=minimum", "log.every_n_steps=0"])
def test_a_training_is_refused_before_it_begins(home, setting):
    output = call(home, "lab", "train", "trial=baseline", setting, rc=2)
    assert output.startswith(f"lab: command line: {setting.split('=')[0]} must be ")
    assert len(output.splitlines()) == 1
