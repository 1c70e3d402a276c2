"""Where a task has its model, optimizer and schedule from: its own section, theirs, or its class.

What the section `task` names wins. The sections `model`, `optimizer` and `schedule` fill the
parameters of these names that it leaves open, and that have no default of their own but None.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from omegaconf import DictConfig

PARTS = ("model", "optimizer", "schedule")


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
