"""Trials that are a program, with a program.py instead of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LabError
from ..project import this_project


def is_program(config: Mapping[Any, Any]) -> bool:
    """Whether the trial of a composed configuration has a program.py, and no model."""
    if "model" in config:
        return False
    trial = config["trial"].partition("/")[0]
    return (this_project().source / "trials" / trial / "program.py").is_file()


def refuse_program(config: Mapping[Any, Any]) -> None:
    """Raises LabError if the trial is a program: it has no data, task or checkpoints to use."""
    if is_program(config):
        raise LabError(
            f"trial {config['trial']!r} is a program: it has no model to evaluate or measure. "
            "Where its time goes: lab train "
            f"trial={config['trial']} profile=cprofile"
        )
