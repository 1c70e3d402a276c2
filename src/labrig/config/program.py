"""Trials that are a program: a script as it is (`program: train.py`), or a program.py with `main(config, log)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import LabError
from ..project import this_project

# Settings that a script has too: it is started on these devices.
OF_SCRIPTS = ("trainer", "trainer.devices", "trainer.accelerator", "trainer.num_nodes")
# Sections that only a task and a Trainer read
OF_TASKS = ("trainer", "optimizer", "schedule", "data", "model", "task", "callbacks", "speed")


def script_of(config: Mapping[Any, Any]) -> str | None:
    """What `program` names: a file of the trial, or `-m MODULE`; None where it names no script."""
    program = config.get("program")
    return program if isinstance(program, str) else None


def is_program(config: Mapping[Any, Any]) -> bool:
    """Whether the trial of a composed configuration is a script, or has a program.py and no model."""
    if script_of(config) is not None:
        return True
    if "model" in config:
        return False
    trial = config["trial"].partition("/")[0]
    return (this_project().source / "trials" / trial / "program.py").is_file()


def refuse_program(config: Mapping[Any, Any]) -> None:
    """Raises LabError if the trial is a program: it has no data, task or checkpoints to use."""
    if is_program(config):
        raise LabError(
            f"trial {config['trial']!r} is a program: it has no model to evaluate or measure. "
            "What it gave: lab runs show RUN"
        )


def refuse_without_effect(config: Mapping[Any, Any], typed: Sequence[str]) -> None:
    """Refuses typed settings that no script reads, such as `trainer.max_epochs`.

    Args:
        typed: dotted keys.
    """
    if script_of(config) is None:
        return
    for key in typed:
        if key.partition(".")[0] in OF_TASKS and key not in OF_SCRIPTS:
            raise LabError(
                f"{key} has no effect on a script: {config['program']} has options of its own. "
                f"Its option --NAME is args.NAME: lab train trial={config['trial']} args.NAME=VALUE"
            )
