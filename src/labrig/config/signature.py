"""The parameters of a `_target_`, read from its source; nothing is imported.

What its source does not show for certain counts as taking any name. The class itself refuses it
when it is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .definitions import Definition, binding_statements, definition_of, linearised

# Decorators that leave the parameters of what they decorate as they are.
KEEPING_PARAMETERS = (
    "abstractmethod",
    "cache",
    "classmethod",
    "deprecated",
    "final",
    "inference_mode",
    "lru_cache",
    "no_grad",
    "overload",
    "override",
    "staticmethod",
)


@dataclass(frozen=True)
class Signature:
    """Parameter names of a callable.

    Attributes:
        names: those that may be passed by name.
        takes_any: further names may be right too, as with **kwargs.
        required: of `names`, those without a default.
    """

    names: tuple[str, ...]
    takes_any: bool
    required: tuple[str, ...] = ()


UNREADABLE = Signature((), takes_any=True)  # it exists, but only an import could tell


def signature_of(target: str) -> Signature:
    """The signature of a dotted name of a class, a function or a method of a class.

    Parameters of a base class count where `**kwargs` lead to them.

    Raises:
        MissingTarget: a module of this project has no such name, or a package is not installed.
    """
    definition = definition_of(target)
    if definition is None:
        return UNREADABLE
    if isinstance(definition.node, ast.ClassDef):
        return _class_signature(definition)
    return _function_signature(definition.node)


def _function_signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    if not _keeps_parameters(node):
        return UNREADABLE
    is_method_of_class = "classmethod" in _decorator_names(node)
    parameters = _parameters(node, n_given=1 if is_method_of_class else 0)
    required = tuple(name for name, is_required in parameters.items() if is_required)
    return Signature(tuple(parameters), node.args.kwarg is not None, required)


def _class_signature(definition: Definition) -> Signature:
    """The parameters of `__init__`; behind its `**kwargs` those of the next base that has one."""
    parameters: dict[str, bool] = {}
    takes_any = False
    passed = PassedOn()
    for owner in linearised(definition):
        if owner is None or not isinstance(owner.node, ast.ClassDef) or _is_special(owner.node):
            takes_any = True
            break
        initialisers = binding_statements(owner.node.body, "__init__")
        if not initialisers:
            continue
        init: Any = initialisers[0]
        is_plain = len(initialisers) == 1 and isinstance(init, ast.FunctionDef)
        if not is_plain or not _keeps_parameters(init):
            takes_any = True
            break
        further = _parameters(init, n_given=1 + passed.n_positional)
        parameters |= {
            name: is_required
            for name, is_required in further.items()
            if name not in parameters and name not in passed.given
        }
        if init.args.kwarg is None:
            break
        passed = passed_on(init, passed)
        takes_any = takes_any or not passed.is_all
        if not passed.to_base:
            break
    required = tuple(name for name, is_required in parameters.items() if is_required)
    return Signature(tuple(parameters), takes_any, required)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, n_given: int) -> dict[str, bool]:
    """The names that may be passed by name, without the first `n_given`; True: it must be passed."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    n_required = len(arguments) - len(node.args.defaults)
    parameters = {}
    for i, argument in enumerate(arguments):
        if i >= max(n_given, len(node.args.posonlyargs)):
            parameters[argument.arg] = i < n_required
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        parameters[argument.arg] = default is None
    return parameters


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


def _is_special(node: ast.ClassDef) -> bool:
    """Whether more than `__init__` decides what a class takes."""
    metaclasses = [
        ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "metaclass"
    ]
    is_made_otherwise = any(name.rpartition(".")[2] != "ABCMeta" for name in metaclasses)
    makes_itself = bool(binding_statements(node.body, "__new__"))
    return is_made_otherwise or makes_itself or not _keeps_parameters(node)


def _keeps_parameters(node: ast.stmt) -> bool:
    return all(name in KEEPING_PARAMETERS for name in _decorator_names(node))


def _decorator_names(node: ast.stmt) -> Iterable[str]:
    """The last part of each decorator's name."""
    for decorator in getattr(node, "decorator_list", []):
        function = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield ast.unparse(function).rpartition(".")[2]
