"""The look at messages, which every test has, finds one that says nothing to type."""

import pytest
from labrig.errors import require_package
from messages import fault_of, look_at_output, take_faults

GOOD = (
    "unknown command 'x'. All commands: lab --help",
    "trainer.devices must be a number, but it is 'many'",
    "a.yaml is missing\nBring it back: git checkout HEAD -- a.yaml",
    "lab sweep needs the package optuna: make add PACKAGE=optuna",
    "stopped at step 7",
)


@pytest.mark.parametrize("message", GOOD)
def test_a_message_with_an_instruction_passes(message):
    assert fault_of(message) == ""


@pytest.mark.parametrize("message", ["", "/a/b.h5", "the file is broken", "no such run: 2026"])
def test_a_message_without_an_instruction_is_a_fault(message):
    assert fault_of(message)


def test_what_labrig_raises_and_what_a_command_ends_with_is_looked_at(monkeypatch):
    monkeypatch.setattr("labrig.errors.find_spec", lambda _: None)
    monkeypatch.setattr("labrig.errors.LabError.__str__", lambda _: "the file is broken")
    with pytest.raises(Exception, match="broken"):
        require_package("optuna", "lab sweep")
    look_at_output("epoch 1\nlab: broken it is\n")
    faults = take_faults()
    assert len(faults) == 2
    assert "the file is broken" in faults[0]
    assert "broken it is" in faults[1]
