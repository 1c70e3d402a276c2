"""Checks the section `model` against the task that is given it, as far as their source shows."""

from __future__ import annotations

from typing import Any

from ..errors import LabError
from .check_target import is_target, known_signature, shown_target
from .program import is_program
from .targets import MissingTarget, definition_of


def check_model(values: dict[str, Any]) -> None:
    """Looks whether the task is given a model, and one that has no training of its own.

    Args:
        values: a composed configuration, with absolute targets.
    """
    task: Any = values.get("task")
    if is_program(values) or not is_target(task) or "model" in task:
        return
    signature = known_signature(task["_target_"], "task")
    if "model" not in values:
        if "model" in signature.required:
            raise LabError(
                f"trial {values['trial']!r} has no model; add to its config.yaml:\n"
                "model:\n  _target_: .model.CNN"
            )
        return
    model = values["model"]
    if "model" not in signature.names or not is_target(model) or "${" in model["_target_"]:
        return
    if is_lightning_module(model["_target_"]):
        raise model_is_a_task(model["_target_"], task["_target_"], values["trial"])


def is_lightning_module(target: str) -> bool:
    """Whether a class of the project names LightningModule as its base. Others are met when built."""
    try:
        definition = definition_of(target)
    except MissingTarget:
        return False
    return definition is not None and "LightningModule" in definition.bases


def model_is_a_task(model: str, task: str, trial: str) -> LabError:
    """The error for a LightningModule in the section `model`, whose own training would be ignored.

    Args:
        model, task: their targets.
        trial: NAME or NAME/VARIANT.
    """
    return LabError(
        f"model._target_ is {model}, a LightningModule. Inside of {task} its own training_step, "
        "optimizer and schedule would be ignored. In place of the section model write:\n"
        f"task:\n  _target_: {shown_target(model, trial.partition('/')[0])}\n"
        "with its arguments. If it shall be only the network of another task, write it as task.model"
    )
