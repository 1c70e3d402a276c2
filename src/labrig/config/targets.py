"""The class or function of a `_target_`, and its parameters, read from the project's own files.

Read is what stands there for certain: a class with an `__init__` of its own, a function, a method.
Everything else counts as taking any name. It is met when it is built: in `lab check`, in a training,
and in the batch that `lab submit` trains. Nothing is imported here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from ..errors import LabError
from ..failure import describe, is_own
from ..project import LIBRARY, this_project

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators that leave the parameters of a function as they are
KEEPING_PARAMETERS = ("classmethod", "staticmethod", "override", "no_grad", "inference_mode")
MAX_STEPS = 8  # imports that a name is followed through


class MissingTarget(Exception):
    """A target does not exist; the message says which part.

    Attributes:
        name: the part that is missing.
        valid_names: those that exist in its place.
    """

    def __init__(self, message: str, name: str, valid_names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.valid_names = tuple(valid_names)


class MissingPackage(MissingTarget):
    """The package of a target is not installed."""


@dataclass(frozen=True)
class Definition:
    """A class or a function, and the file that it stands in."""

    path: Path
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def bases(self) -> list[str]:
        """The last part of the name of each base class."""
        if not isinstance(self.node, ast.ClassDef):
            return []
        return [ast.unparse(base).rpartition(".")[2] for base in self.node.bases]

    def defines(self, name: str) -> bool:
        """Whether a class has this method, or attribute, itself."""
        return any(name in _bound_names(statement) for statement in self.node.body)


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


UNREADABLE = Signature((), takes_any=True)  # only an import could tell


def signature_of(target: str) -> Signature:
    """The parameters of a dotted name. MissingTarget: the project, or an environment, has no such name."""
    definition = definition_of(target)
    if definition is None:
        return UNREADABLE
    node = definition.node
    if isinstance(node, ast.ClassDef):
        methods = [each for each in node.body if "__init__" in _bound_names(each)]
        is_special = node.decorator_list or node.keywords or definition.defines("__new__")
        if is_special or len(methods) != 1 or not isinstance(methods[0], ast.FunctionDef):
            return UNREADABLE
        node = methods[0]
        has_self = True
    else:
        has_self = "classmethod" in _decorators(node)
    if not all(name in KEEPING_PARAMETERS for name in _decorators(node)):
        return UNREADABLE
    parameters = _parameters(node.args, n_given=int(has_self))
    required = tuple(name for name, is_required in parameters.items() if is_required)
    return Signature(tuple(parameters), node.args.kwarg is not None, required)


def _parameters(arguments: ast.arguments, n_given: int) -> dict[str, bool]:
    """The names that may be passed by name, without the first `n_given`; True: it must be passed."""
    positional = [*arguments.posonlyargs, *arguments.args]
    n_required = len(positional) - len(arguments.defaults)
    first = max(n_given, len(arguments.posonlyargs))
    parameters = {
        argument.arg: i < n_required for i, argument in enumerate(positional) if i >= first
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters[argument.arg] = default is None
    return parameters


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The last part of each decorator's name."""
    functions = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return [ast.unparse(function).rpartition(".")[2] for function in functions]


def definition_of(target: str, n_steps: int = 0) -> Definition | None:
    """The class, function or method of a dotted name; None where only an import could tell.

    MissingTarget: a module of the project has no such name, or a package is not installed.
    """
    package, *names = target.split(".")
    folder = _own_packages().get(package)
    if folder is None:
        if find_spec(package) is None:
            raise MissingPackage(f"there is no module {package!r}", package)
        return None
    path, names = _split(folder, names)
    if path is None:
        raise MissingTarget(f"there is no module {package!r}", package)
    if not names:
        raise MissingTarget(f"{path} is a module", target.rpartition(".")[2], _names_in(path))
    definition = _top_level(path, names[0], n_steps)
    for name in names[1:]:
        if definition is None:
            return None
        found = [each for each in definition.node.body if name in _bound_names(each)]
        if len(found) != 1 or not isinstance(found[0], DEFINITIONS):
            return None
        definition = Definition(definition.path, found[0])
    return definition


def _own_packages() -> dict[str, Path]:
    """The packages that are read: the project's and the library's."""
    project = this_project()
    return {project.package: project.source, LIBRARY.name: LIBRARY}


def _split(folder: Path, names: list[str]) -> tuple[Path | None, list[str]]:
    """The file of the module that a dotted name leads to, and the names inside it."""
    for n in range(len(names), -1, -1):
        module = folder.joinpath(*names[:n])
        for path in (module / "__init__.py", module.with_suffix(".py")):
            if path.is_file():
                return path, names[n:]
    return None, names


def _top_level(path: Path, name: str, n_steps: int) -> Definition | None:
    """What a name of a module of the project means."""
    tree = _parse(path)
    if tree is None:
        return None
    bound = [each for each in tree.body if name in _bound_names(each)]
    if len(bound) == 1:
        (statement,) = bound
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            (statement,) = (each for each in statement.body if name in _bound_names(each))
        if isinstance(statement, DEFINITIONS):
            return Definition(path, statement)
        if isinstance(statement, ast.ImportFrom) and n_steps < MAX_STEPS:
            return _imported(path, statement, name, n_steps)
    if bound or _computes_names(tree):
        return None
    raise MissingTarget(f"{path} defines no {name!r}", name, _names_in(path))


def _imported(path: Path, statement: ast.ImportFrom, name: str, n_steps: int) -> Definition | None:
    """What `from module import name` brings, where the module is the project's own."""
    original = next(each.name for each in statement.names if name == (each.asname or each.name))
    module = statement.module or ""
    for package, folder in _own_packages().items():
        if statement.level and path.is_relative_to(folder):
            parts = path.parents[statement.level - 1].relative_to(folder).parts
            module = ".".join(filter(None, (package, *parts, module)))
            break
    if module.partition(".")[0] not in _own_packages():
        return None
    try:
        return definition_of(f"{module}.{original}", n_steps + 1)
    except MissingTarget:
        return None  # the import fails, and says so


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names to which a statement, or one inside its branches, gives a meaning."""
    if isinstance(statement, DEFINITIONS):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, DEFINITIONS):
            yield node.name


def _computes_names(tree: ast.Module) -> bool:
    """Whether a module has names that no statement shows: `import *`, __getattr__ (PEP 562), exec."""
    names = {name for statement in tree.body for name in _bound_names(statement)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return bool(names & {"*", "__getattr__"} or used & {"globals", "exec"})


def _names_in(path: Path) -> list[str]:
    """The classes and functions of a module, and the modules of a package."""
    tree = _parse(path)
    names = [node.name for node in tree.body if isinstance(node, DEFINITIONS)] if tree else []
    if path.name == "__init__.py":
        names += [file.stem for file in path.parent.glob("*.py")]
    return names


def _parse(path: Path) -> ast.Module | None:
    """The syntax tree of a file; None when it cannot be read. A mistake in a file of the project is named."""
    try:
        return _parse_version(path, path.stat().st_mtime_ns)
    except SyntaxError as error:
        if is_own(str(path)):
            raise LabError(describe(error)) from error
        return None
    except (UnicodeDecodeError, OSError):
        return None


@lru_cache(maxsize=128)
def _parse_version(path: Path, mtime_ns: int) -> ast.Module:
    """Parsed once for each time the file was written, so that a notebook sees an edited file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
