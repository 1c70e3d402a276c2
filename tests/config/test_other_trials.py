"""A trial that imports another one is refused, with what to move where."""

import sys
from types import ModuleType

import pytest
from labrig.config.check_target import refuse_other_trials
from labrig.errors import LabError


def module(monkeypatch, name, **content):
    made = ModuleType(name)
    for value in content.values():
        if isinstance(value, type):
            value.__module__ = name
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_a_class_or_module_of_another_trial_is_refused(monkeypatch, home):
    other = module(monkeypatch, "myproj.trials.baseline.model", CNN=type("CNN", (), {}))
    shared = module(monkeypatch, "myproj.trials.common", helper=type("Helper", (), {}))
    for content in ({"CNN": other.CNN}, {"model": other}):
        module(monkeypatch, "myproj.trials.wide.model")
        vars(sys.modules["myproj.trials.wide.model"]).update(content)
        with pytest.raises(LabError, match=r"trial wide uses code of trial baseline.*trials/wide/"):
            refuse_other_trials("wide/variant")
    module(monkeypatch, "myproj.trials.wide.model")
    vars(sys.modules["myproj.trials.wide.model"]).update(common=shared, helper=shared.helper)
    refuse_other_trials("wide")
    refuse_other_trials("baseline")
