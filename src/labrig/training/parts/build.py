"""Builds the parts of a training from the configuration: data, task with model, optimizer and schedule, callbacks.

What the section `task` names wins. The sections `model`, `optimizer` and `schedule` fill the
parameters of these names that it leaves open, and that have no default of their own but None.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from inspect import Signature, signature
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ...config.check_target import model_is_a_task
from ...config.program import refuse_program
from ...errors import LabError, nearest
from ...failure import message_of, place_of

UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")
MISSING_ARGUMENT = re.compile(r"(?:argument: | and |arguments: |, )'(\w+)'")
PARTS = ("model", "optimizer", "schedule")


def build(config: DictConfig, key: str, **arguments: Any) -> Any:
    """`instantiate(config[key], **arguments)`, with plain lists and dicts.

    Without that an optimizer keeps the ListConfig of its `betas`, which no checkpoint can hold. A
    `_convert_` in the section itself wins.
    """
    section = config[key]
    convert = section.get("_convert_", "all")
    try:
        built = instantiate(section, _convert_=convert, **arguments)
        if isinstance(built, partial):
            # What it lacks comes later; what it does not take would end the training.
            signature_of(built.func).bind_partial(*built.args, **built.keywords)
        return built
    except (InstantiationException, TypeError) as error:
        shown = error_to_show(error, key, section.get("_target_"))
    raise shown


def signature_of(function: Any) -> Signature:
    """The parameters of a class or a function; any, where it has none that Python can see."""
    try:
        return signature(function)
    except ValueError:  # written in C
        return signature(lambda *args, **kwargs: None)


def error_to_show(error: Exception, key: str, target: str) -> BaseException:
    """What to raise in place of an error of Hydra's: its cause in the project's code, or a message."""
    cause = cause_of(error)
    if isinstance(cause, LabError) or place_of(cause):
        return cause
    shown = LabError(
        f"{key}: cannot build {target}: {message_of(cause)}{advice_for_arguments(cause, key, target)}"
        "\nIts settings: lab config trial=NAME"
    )
    shown.__cause__ = cause
    return shown


def advice_for_arguments(cause: BaseException, key: str, target: str) -> str:
    """What to do about an argument that a class does not take, or lacks; "" for other errors."""
    text = str(cause)
    if not isinstance(cause, TypeError):
        return ""
    missing = MISSING_ARGUMENT.findall(text)
    if "params" in missing or "optimizer" in missing:
        return "\nThe task gives it that: write `_partial_: true` below its `_target_`."
    # Python's text begins with the name of what was called.
    if "(" in text and not target.endswith(text.partition("(")[0].removesuffix(".__init__")):
        return ""
    if "Did you mean" in text:  # from Python 3.13 on
        return ""
    if unknown := UNKNOWN_ARGUMENT.search(text):
        return nearest(unknown[1], parameters_of(get_object(target)))
    return f"\nWrite a value for {key}.{missing[0]}." if missing else ""


def cause_of(error: BaseException) -> BaseException:
    """The error that Hydra has wrapped in its own."""
    while error.__cause__ and (
        isinstance(error, InstantiationException) or str(error).startswith("Error loading ")
    ):
        error = error.__cause__
    return error


def build_task(config: DictConfig) -> L.LightningModule:
    """The LightningModule of `task._target_`.

    What its section names is built as it says. `model`, `optimizer` and `schedule` fill parameters
    that it leaves open.
    """
    refuse_program(config)
    filled = {
        name: build(config, name) if config.get(name) else None for name in filled_sections(config)
    }
    if isinstance(filled.get("model"), L.LightningModule):
        raise model_is_a_task(config.model._target_, config.task._target_, config.trial)
    task = build(config, "task", **filled)
    if not isinstance(task, L.LightningModule):
        raise LabError(
            f"task._target_ is {config.task._target_}, a {type(task).__name__}. "
            "It must be a LightningModule."
        )
    return task


def filled_sections(config: DictConfig) -> tuple[str, ...]:
    """The sections `model`, `optimizer`, `schedule` that fill a parameter which the task leaves open."""
    return tuple(part.name for part in parts_of(config) if part.origin is Origin.SECTION)


def parts_of(config: DictConfig) -> list[TaskPart]:
    """The model, the optimizer and the schedule of the task, and what decides each."""
    return task_parts(config, import_target("task", config.task._target_))


def import_target(key: str, target: str) -> Any:
    """The class, or the function, of a `_target_`."""
    try:
        return get_object(target)
    except Exception as error:
        shown = error_to_show(error, key, target)
    raise shown


def build_data(config: DictConfig) -> L.LightningDataModule:
    """The LightningDataModule of `data._target_`."""
    refuse_program(config)
    data = build(config, "data")
    if not isinstance(data, L.LightningDataModule):
        raise LabError(
            f"data._target_ is {config.data._target_}, a {type(data).__name__}. "
            "It must be a LightningDataModule."
        )
    return data


def build_callbacks(config: DictConfig, checkpoints: Path | None = None) -> list[L.Callback]:
    """The user's callbacks, in the order of the section `callbacks`; null leaves one out.

    Args:
        checkpoints: where a ModelCheckpoint without `dirpath` gets a directory of its name in that
            section; None: nowhere.
    """
    callbacks = {
        name: build(config.callbacks, name) for name, node in config.callbacks.items() if node
    }
    for name, callback in callbacks.items():
        is_checkpoint = isinstance(callback, L.callbacks.ModelCheckpoint)
        if is_checkpoint and checkpoints and callback.dirpath is None:
            # Not the directory itself: last.ckpt there is what a resumed run continues from.
            callback.dirpath = str(checkpoints / name)
    return list(callbacks.values())


class Origin(Enum):
    """What decides a part of a task."""

    TASK = "task"  # the section `task` names it
    SECTION = "section"  # the section of its name fills the parameter
    DEFAULT = "default"  # of the parameter
    CLASS = "class"  # the class has no such parameter


@dataclass(frozen=True)
class TaskPart:
    """A part of a task, and what decides it.

    Attributes:
        name: one of PARTS.
        default: of the parameter; `inspect.Parameter.empty` when it has none.
    """

    name: str
    origin: Origin
    default: Any = inspect.Parameter.empty


def task_parts(config: DictConfig, task: Callable[..., Any]) -> list[TaskPart]:
    """The parts of a task, in the order of PARTS.

    Args:
        task: the class, or what else makes it.
    """
    parameters = parameters_of(task)
    by_position = list(parameters)[: len(config.task.get("_args_", []))]
    return [task_part(name, config, parameters, by_position) for name in PARTS]


def task_part(
    name: str,
    config: DictConfig,
    parameters: dict[str, inspect.Parameter],
    by_position: list[str],
) -> TaskPart:
    if name in config.task or name in by_position:
        return TaskPart(name, Origin.TASK)
    if name not in parameters:
        return TaskPart(name, Origin.CLASS)
    default = parameters[name].default
    is_required = default is inspect.Parameter.empty
    # None says that nothing was given: the section gives something.
    is_filled = is_required or (default is None and bool(config.get(name)))
    return TaskPart(name, Origin.SECTION if is_filled else Origin.DEFAULT, default)


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that can be passed by name; behind `**kwargs` of an `__init__` those of a base."""
    if not inspect.isclass(function):
        return named(list(inspect.signature(function).parameters.values()))
    parameters: dict[str, inspect.Parameter] = {}
    passed = PassedOn()
    for owner in function.__mro__:
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        own = list(inspect.signature(init).parameters.values())
        further = named(own[1 + passed.n_positional :])
        parameters |= {
            name: parameter
            for name, parameter in further.items()
            if name not in parameters and name not in passed.given
        }
        if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in own):
            break
        passed = passed_on_by(init, passed)
        if not passed.to_base:
            break
    return parameters


def named(parameters: list[inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """Those that can be passed by name."""
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {parameter.name: parameter for parameter in parameters if parameter.kind in by_name}


def passed_on_by(init: Callable[..., Any], before: PassedOn) -> PassedOn:
    """How an `__init__` passes its `**kwargs` on, as its source says; without one, not at all."""
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(init))).body[0]
    except (OSError, TypeError, SyntaxError):
        return PassedOn(to_base=False)
    if not isinstance(node, ast.FunctionDef):
        return PassedOn(to_base=False)
    return passed_on(node, before)


@dataclass(frozen=True)
class PassedOn:
    """What an `__init__` does with its `**kwargs`.

    Attributes:
        to_base: it passes them to the `__init__` of a base.
        is_all: it does nothing else with them.
        given: names that it, or a class before it, passes itself.
        n_positional: how many arguments it passes before them, without names.
    """

    to_base: bool = True
    is_all: bool = True
    given: frozenset[str] = frozenset()
    n_positional: int = 0


def passed_on(init: ast.FunctionDef, before: PassedOn | None = None) -> PassedOn:
    """How an `__init__` with `**kwargs` passes them to its base class.

    Args:
        before: of the class whose `**kwargs` come here.
    """
    name = init.args.kwarg.arg if init.args.kwarg else ""
    nodes = list(ast.walk(init))
    calls = [node for node in nodes if isinstance(node, ast.Call) and _is_for_base(node, name)]
    if len(calls) != 1:
        return PassedOn(to_base=False, is_all=False)
    (call,) = calls
    n_uses = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    is_super = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)
    given = {keyword.arg for keyword in call.keywords if keyword.arg}
    return PassedOn(
        is_all=n_uses == 1 and is_super and len(positional) == len(call.args),
        given=frozenset(given | (before.given if before else set())),
        n_positional=len(positional) if is_super else max(0, len(positional) - 1),  # self
    )


def _is_for_base(call: ast.Call, name: str) -> bool:
    """Whether a call is `super().__init__(..., **NAME)`, or `Base.__init__(self, ..., **NAME)`."""
    is_init = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    return is_init and any(isinstance(value, ast.Name) and value.id == name for value in unpacked)
