"""Checks a section with `_target_`: where its class lies, and its arguments; and the model that a task is given.

A trial uses no class of another trial: that one may change or go, and is no part of the own code.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..errors import LabError, nearest
from ..project import this_project
from .program import is_program
from .schema import check_type
from .targets import (
    UNREADABLE,
    MissingPackage,
    MissingTarget,
    Signature,
    definition_of,
    signature_of,
)

# keys that hydra.utils.instantiate reads itself
INSTANTIATE_KEYS = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")


def absolute_target(target: str, trial: str, where: str = "") -> str:
    """The full name of a target: `.model.CNN` is in the trial's own directory.

    Args:
        where: the file and the key of the target, for the message.
    """
    package = this_project().package
    target = target.replace("${package}", package)
    own_package = f"{package}.trials.{trial}"
    if target.startswith("."):
        return own_package + target
    if target.startswith(f"{package}.trials.") and not target.startswith(f"{own_package}."):
        module, _, name = target.rpartition(".")
        shared = f"{module.rpartition('.')[2]}.{name}"
        raise LabError(
            f"{where}_target_: {target} is in another trial, which may change or be deleted. "
            f"Copy it into trials/{trial}/ and write .{shared} instead. "
            f"For all trials, move it into the package and write ${{package}}.{shared}"
        )
    return target


def shown_target(target: str, trial: str) -> str:
    """A full name as one writes it in the trial: `.model.CNN` for its own classes."""
    package = this_project().package
    own_package = f"{package}.trials.{trial}"
    if target.startswith(f"{own_package}."):
        return target.removeprefix(own_package)
    if target.startswith(f"{package}."):
        return "${package}" + target.removeprefix(package)
    return target


def is_target(value: Any) -> bool:
    """Whether `value` is a section that builds an object."""
    return isinstance(value, dict) and "_target_" in value


def check_target(name: str, value: Any, inherited: Any, source: str, trial: str) -> None:
    """Checks the section `name`, and those with a `_target_` inside it.

    Args:
        name: the dotted key, for messages.
        value: what `source` holds.
        inherited: what the files before it hold for the same key.
        source: a file, or "command line", for messages.
        trial: whose directory a target that begins with a dot means.
    """
    if not isinstance(value, dict):
        raise LabError(
            f"{source}: {name} must hold `_target_: module.Class` and its arguments, "
            f"but it is {value!r}."
        )
    if not isinstance(inherited, dict):
        inherited = {}
    target = _target_of(name, inherited | value, source, trial)
    arguments = argument_names(target, f"{source}: {name}")
    is_other_class = (
        is_target(value) and is_target(inherited) and value["_target_"] != inherited["_target_"]
    )
    for key, item in value.items():
        if key in INSTANTIATE_KEYS:
            continue
        if is_target(item) or (isinstance(item, dict) and is_target(inherited.get(key))):
            check_target(f"{name}.{key}", item, inherited.get(key), source, trial)
        elif key in inherited:
            check_type(f"{name}.{key}", item, inherited[key], source)
        if key not in inherited or is_other_class:
            _check_argument(target, key, arguments, source)
    if is_other_class:
        _check_inherited(name, target, inherited.keys() - value.keys(), arguments, source)


def _target_of(name: str, section: dict[str, Any], source: str, trial: str) -> str:
    if "_target_" not in section:
        raise LabError(
            f"{source}: {name} needs a `_target_`, for example `_target_: .model.CNN` "
            "for a class of the trial's model.py."
        )
    target = section["_target_"]
    if not isinstance(target, str):
        raise LabError(f"{source}: {name}._target_ must be a dotted name, but it is {target!r}.")
    return absolute_target(target, trial, f"{source}: {name}.")


def argument_names(target: str, where: str) -> tuple[str, ...] | None:
    """The arguments a target takes, or None when any name may be right."""
    signature = known_signature(target, where)
    return None if signature.takes_any else signature.names


def known_signature(target: str, where: str) -> Signature:
    """The signature of a target, as far as its source shows it."""
    if "${" in target:
        return UNREADABLE  # an interpolation, resolved later
    try:
        return signature_of(target)
    except MissingTarget as error:
        advice = (
            f"{nearest(error.name, error.valid_names)}. Write module.Class, such as .model.CNN."
        )
        if isinstance(error, MissingPackage):
            advice += f"\nA package is added to the project with: make add PACKAGE={error.name}"
        raise LabError(f"{where}._target_ is {target!r}, but {error}{advice}") from error


def _check_argument(
    target: str, key: str, arguments: tuple[str, ...] | None, source: str, advice: str = ""
) -> None:
    if arguments is not None and key not in arguments:
        raise LabError(
            f"{source}: {target} takes no argument {key!r}{nearest(key, arguments)}{advice}. "
            f"It takes: {', '.join(arguments)}"
        )


def _check_inherited(
    name: str, target: str, keys: set[str], arguments: tuple[str, ...] | None, source: str
) -> None:
    advice = (
        f" (inherited from the option chosen before; to use another class, choose another option: "
        f"`defaults: [override /{name.split('.')[0]}: NAME]`)"
    )
    for key in sorted(keys.difference(INSTANTIATE_KEYS)):
        _check_argument(target, key, arguments, source, advice)


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
    if is_a(model["_target_"], "LightningModule"):
        raise model_is_a_task(model["_target_"], task["_target_"], values["trial"])


def is_a(target: str, base: str) -> bool:
    """Whether a class has the name `base`, or is of the project and names it as its base.

    What others inherit is met when they are built.
    """
    if target.rpartition(".")[2] == base:
        return True
    try:
        definition = definition_of(target)
    except MissingTarget:
        return False
    return definition is not None and base in (definition.node.name, *definition.bases)


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


def refuse_other_trials(trial: str) -> None:
    """Makes sure that no loaded module of a trial uses what lies in another one."""
    trials = f"{this_project().package}.trials."
    own = trial.partition("/")[0]
    for name, module in sorted(sys.modules.items()):
        if name != trials + own and not name.startswith(f"{trials}{own}."):
            continue
        for value in list(vars(module).values()):
            home = value.__name__ if isinstance(value, ModuleType) else home_of(value)
            other = home.removeprefix(trials).partition(".")[0] if home.startswith(trials) else own
            if other != own and (this_project().source / "trials" / other).is_dir():
                raise LabError(
                    f"{name} imports {home}: trial {own} uses code of trial {other}, which may change "
                    f"or be deleted, and is not compared with that of {own}. Copy what it needs into "
                    f"trials/{own}/, or move it into the package, where all trials may import it"
                )


def home_of(value: object) -> str:
    """The module in which a class or a function was written; "" for other values."""
    home = getattr(value, "__module__", None) if callable(value) else None
    return home if isinstance(home, str) else ""
