"""What a dotted name means: the class, function or module, read from source files; nothing is imported.

Where only an import could tell, the answer is None: compiled code, names that are computed, and
names that one of several branches defines.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import LabError
from ..failure import describe, is_own
from ..project import LIBRARY, this_project

MAX_STEPS = 16  # imports and aliases that a name is followed through
# Bases that change no parameter, and the modules that they are from.
PLAIN_BASES = ("ABC", "Generic", "Protocol")
OF_TYPES = ("abc", "typing", "typing_extensions")
MAKING_NAMES = ("globals", "exec")  # functions with which a module defines names by computing them


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
class Module:
    """A module, and its file."""

    path: Path


@dataclass(frozen=True)
class Definition:
    """A class or a function, and the file that it stands in."""

    path: Path
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)


Meaning = Module | Definition | None
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PLAIN = Definition(Path(), ast.ClassDef("object", [], [], [], []))  # a base without parameters


def definition_of(target: str) -> Definition | None:
    """The class or function of a dotted name; a method of a class, too.

    Raises:
        MissingTarget: a module of this project has no such name, or a package is not installed.
        LabError: a file of the project that is no valid Python.
    """
    parts = target.split(".")
    for n_parts in range(len(parts) - 1, 0, -1):
        path = _module_file(parts[:n_parts])
        if path is not None:
            return _definition_in(path, parts[n_parts:])
    if parts[0] in _known_packages():
        raise MissingTarget(f"there is no module {parts[0]!r}", parts[0])
    if importlib.util.find_spec(parts[0]) is None:
        raise MissingPackage(f"there is no module {parts[0]!r}", parts[0])
    return None


def _definition_in(path: Path, names: list[str]) -> Definition | None:
    """The definition of the attribute `names`, one or a path of several, of the module in `path`."""
    meant: Meaning = Module(path)
    for name in names:
        meant = _member(meant, name)
    if isinstance(meant, Module) and _is_known(meant.path):
        raise MissingTarget(f"{meant.path} is a module", names[-1], _names_in(meant.path))
    return meant if isinstance(meant, Definition) else None


def _member(owner: Meaning, name: str, n_steps: int = 0) -> Meaning:
    if isinstance(owner, Module):
        return _global(owner.path, name, n_steps)
    if isinstance(owner, Definition) and owner.is_class:
        return _class_member(owner, name)
    return None


def _global(path: Path, name: str, n_steps: int) -> Meaning:
    """What a name of a module means."""
    tree = _parse(path)
    if tree is None or n_steps > MAX_STEPS:
        return None
    statements = binding_statements(tree.body, name)
    if len(statements) == 1:
        return _meaning(path, statements[0], name, n_steps)
    if statements or _makes_names(tree):
        return None
    submodule = _submodule(path, name)
    if submodule is not None:
        return Module(submodule)
    if not _is_known(path):
        return None
    raise MissingTarget(f"{path} defines no {name!r}", name, _names_in(path))


def _names_in(path: Path) -> list[str]:
    """The classes and functions of a module, and the modules of a package."""
    tree = _parse(path)
    body = tree.body if tree else []
    names = [node.name for node in body if isinstance(node, DEFINITIONS)]
    if path.name == "__init__.py":
        names += [file.stem for file in path.parent.glob("*.py")]
    return names


def _class_member(definition: Definition, name: str) -> Definition | None:
    """A method of a class, or a class inside it; its base classes are searched, too."""
    valid_names = []
    for owner in linearised(definition):
        if owner is None:
            return None
        statements = binding_statements(owner.node.body, name)
        if len(statements) == 1 and isinstance(statements[0], DEFINITIONS):
            return Definition(owner.path, statements[0])
        if statements:
            return None
        valid_names += [node.name for node in owner.node.body if isinstance(node, DEFINITIONS)]
    owner_name = definition.node.name
    raise MissingTarget(
        f"the class {owner_name} of {definition.path} has no {name!r}",
        name,
        [name for name in valid_names if not name.startswith("_")],
    )


def binding_statements(body: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements that may give a name its meaning, those of branches too.

    One that is in no branch replaces those before it.
    """
    found: list[ast.stmt] = []
    for statement in body:
        if name in _bound_names(statement):
            found = [statement]
        for branch in _branches(statement):
            found += binding_statements(branch, name)
    return found


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, DEFINITIONS):
        yield statement.name
    elif isinstance(statement, ast.Import):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    else:
        for target in _assigned(statement):
            names = (part for part in ast.walk(target) if isinstance(part, ast.Name))
            yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def _assigned(statement: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.AnnAssign):
        return [statement.target] if statement.value else []
    if isinstance(statement, ast.AugAssign | ast.For):
        return [statement.target]
    if isinstance(statement, ast.With):
        return [item.optional_vars for item in statement.items if item.optional_vars]
    return []


def _branches(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks inside a statement that run in the same scope, when the module is imported."""
    if isinstance(statement, ast.If):
        return [statement.body, statement.orelse]
    if isinstance(statement, ast.Try | ast.TryStar):
        handlers = [handler.body for handler in statement.handlers]
        return [statement.body, *handlers, statement.orelse, statement.finalbody]
    if isinstance(statement, ast.For | ast.While):
        return [statement.body, statement.orelse]
    if isinstance(statement, ast.With):
        return [statement.body]
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    return []


def _meaning(path: Path, statement: ast.stmt, name: str, n_steps: int) -> Meaning:
    """What a statement of a module makes of a name."""
    if isinstance(statement, DEFINITIONS):
        return Definition(path, statement)
    if isinstance(statement, ast.ImportFrom):
        return _imported(path, statement, name, n_steps)
    if isinstance(statement, ast.Import):
        modules = {alias.asname: alias.name for alias in statement.names if alias.asname}
        file = _module_file(modules.get(name, name).split("."))
        return Module(file) if file else None
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        is_alias = all(isinstance(target, ast.Name) for target in _assigned(statement))
        return meaning_of(path, statement.value, n_steps + 1) if is_alias else None
    return None


def _imported(path: Path, statement: ast.ImportFrom, name: str, n_steps: int) -> Meaning:
    """What `from module import name` brings."""
    original = next(alias.name for alias in statement.names if name == (alias.asname or alias.name))
    parts = statement.module.split(".") if statement.module else []
    if statement.level:
        file = _python_file(path.parents[statement.level - 1].joinpath(*parts))
    elif parts[0] in OF_TYPES:
        return PLAIN if original in PLAIN_BASES else None
    else:
        file = _module_file(parts)
    if file is None:
        return None
    submodule = _submodule(file, original)
    if submodule is not None:
        return Module(submodule)
    try:
        return _global(file, original, n_steps + 1)
    except MissingTarget:
        return None  # the import fails, and says so


def meaning_of(path: Path, expression: ast.expr | None, n_steps: int = 0) -> Meaning:
    """What an expression of a module means, such as the base class `nn.Module` or `Base[int]`."""
    try:
        if isinstance(expression, ast.Subscript):
            return meaning_of(path, expression.value, n_steps)
        if isinstance(expression, ast.Attribute):
            if ast.unparse(expression.value) in OF_TYPES:
                return PLAIN if expression.attr in PLAIN_BASES else None
            owner = meaning_of(path, expression.value, n_steps)
            return _member(owner, expression.attr, n_steps)
        if isinstance(expression, ast.Name):
            return _global(path, expression.id, n_steps)
    except MissingTarget:
        is_object = isinstance(expression, ast.Name) and expression.id == "object"
        return PLAIN if is_object else None
    return None


def linearised(definition: Definition) -> list[Definition | None]:
    """A class and its bases in the order in which Python searches them, without `object`.

    It ends with None where the next class cannot be read.
    """
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        return [None]
    bases = [meaning_of(definition.path, base) for base in node.bases]
    classes = [
        base if isinstance(base, Definition) and base.is_class else None
        for base in bases
        if base is not PLAIN
    ]
    if not classes:
        return [definition]
    orders: list[list[Definition | None]] = [
        linearised(base) if base else [None] for base in classes
    ]
    if len(orders) == 1:
        return [definition, *orders[0]]
    if any(None in order for order in orders):
        return [definition, None]  # an unknown class may come before the known ones
    return [definition, *_merged([*orders, classes])]


def _merged(orders: list[list[Definition | None]]) -> list[Definition | None]:
    """Python's order of the bases of several classes (C3); None where it would refuse them."""
    merged: list[Definition | None] = []
    while orders := [order for order in orders if order]:
        later = [item for order in orders for item in order[1:]]
        first = next((order[0] for order in orders if order[0] not in later), None)
        merged.append(first)
        if first is None:
            return merged
        orders = [order[1:] if order[0] == first else order for order in orders]
    return merged


def is_lightning_module(target: str) -> bool:
    """Whether the source of a class of the project shows that it is a LightningModule.

    Other packages are not read, which would take long: of their classes the answer is False.
    """
    try:
        definition = definition_of(target)
    except MissingTarget:
        return False
    to_read: list[Meaning] = [definition]
    while to_read:
        meant = to_read.pop()
        if not isinstance(meant, Definition) or not isinstance(meant.node, ast.ClassDef):
            continue
        if not meant.path.is_relative_to(this_project().source):
            continue
        for base in meant.node.bases:
            if ast.unparse(base).rpartition(".")[2] == "LightningModule":
                return True
            to_read.append(meaning_of(meant.path, base))
    return False


def _known_packages() -> dict[str, Path]:
    """The packages whose every name can be read: the project's and the library's."""
    project = this_project()
    return {project.package: project.source, LIBRARY.name: LIBRARY}


def _is_known(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _known_packages().values())


def _module_file(parts: list[str]) -> Path | None:
    """The .py file of a module, found without importing its parents."""
    package, *inside = parts
    if package in _known_packages():
        return _python_file(_known_packages()[package].joinpath(*inside))
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    if spec.submodule_search_locations:
        return _python_file(Path(spec.origin).parent.joinpath(*inside))
    is_source = spec.origin.endswith(".py") and not inside
    return Path(spec.origin) if is_source else None


def _submodule(path: Path, name: str) -> Path | None:
    """The file of a module of the package whose __init__.py `path` is."""
    return _python_file(path.parent / name) if path.name == "__init__.py" else None


def _python_file(module: Path) -> Path | None:
    """The file of a module whose path has no ending yet: a package's __init__.py, or module.py."""
    for path in (module / "__init__.py", module.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _parse(path: Path) -> ast.Module | None:
    """The syntax tree of a file; None when it cannot be read.

    Raises:
        LabError: a file of the project that is no valid Python, with its line.
    """
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


def _makes_names(tree: ast.Module) -> bool:
    """Whether a module has names that no statement shows: `import *`, __getattr__ (PEP 562), exec."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return True
        if isinstance(node, ast.Name) and node.id in MAKING_NAMES:
            return True
    return bool(binding_statements(tree.body, "__getattr__"))
