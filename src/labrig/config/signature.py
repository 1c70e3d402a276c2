"""Parameter names of a `_target_`, read from its source with `ast`; nothing is imported.

What it cannot see counts as taking any name: compiled code, dataclasses, assignments.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import LabError
from ..failure import describe, is_own
from ..project import LIBRARY, this_project

MAX_IMPORTS = 8  # a name is followed through so many files


@dataclass(frozen=True)
class Signature:
    """Parameter names of a callable; `takes_any`: further names may be right too, as with **kwargs."""

    names: tuple[str, ...]
    takes_any: bool


UNREADABLE = Signature((), takes_any=True)  # it exists, but only an import could tell


class MissingTarget(Exception):
    """A target does not exist; the message says which part, `valid_names` holds the names that do."""

    def __init__(self, message: str, valid_names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.valid_names = valid_names


def signature_of(target: str) -> Signature:
    """The signature of a dotted class or function name.

    Raises:
        MissingTarget: a module of this package has no such name, or a package is not installed.
    """
    parts = target.split(".")
    for n_parts in range(len(parts) - 1, 0, -1):
        path = _module_file(parts[:n_parts])
        if path is not None:
            return _signature_in(path, parts[n_parts:], is_known=parts[0] in _known_packages())
    if parts[0] in _known_packages() or importlib.util.find_spec(parts[0]) is None:
        raise MissingTarget(f"there is no module {parts[0]!r}")
    return UNREADABLE


def _known_packages() -> dict[str, Path]:
    """The packages whose every name can be read: the project's and the library's."""
    project = this_project()
    return {project.package: project.source, LIBRARY.name: LIBRARY}


def _signature_in(path: Path, names: list[str], is_known: bool) -> Signature:
    """The signature of the attribute `names`, one or a path of several, of the module in `path`."""
    if len(names) == 1:
        signature = _find(path, names[0], n_imports=0)
        if signature is not None:
            return signature
    if not is_known:
        return UNREADABLE
    if len(names) == 1:
        valid_names = tuple(_defined_names(path))
    else:
        valid_names = tuple(file.stem for file in path.parent.glob("*.py"))
    raise MissingTarget(f"{path} defines no {names[0]!r}", valid_names)


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


@lru_cache(maxsize=64)
def _parse_version(path: Path, mtime_ns: int) -> ast.Module:
    """Parsed once for each time the file was written, so that a notebook sees an edited file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _defined_names(path: Path) -> list[str]:
    tree = _parse(path)
    if tree is None:
        return []
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]


def _find(path: Path, name: str, n_imports: int) -> Signature | None:
    """The signature of `name` in a file, or None where the file does not define or import it."""
    tree = _parse(path)
    if tree is None or n_imports > MAX_IMPORTS:
        return UNREADABLE
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node in tree.body:
            return _parameters(node)
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _class_signature(path, node, n_imports)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _imported_signature(path, node, alias.name, n_imports)
        if isinstance(node, ast.Assign) and name in _assigned_names(node):
            return UNREADABLE
    return UNREADABLE if _imports_star(tree) or _makes_names(tree) else None


def _assigned_names(node: ast.Assign) -> Iterable[str]:
    return (target.id for target in node.targets if isinstance(target, ast.Name))


def _imports_star(tree: ast.Module) -> bool:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == "*" for node in imports for alias in node.names)


def _makes_names(tree: ast.Module) -> bool:
    """Whether a module makes names when they are asked for (PEP 562)."""
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body
    )


def _imported_signature(path: Path, node: ast.ImportFrom, name: str, n_imports: int) -> Signature:
    """The signature of a name that `path` imports from another file."""
    module_parts = node.module.split(".") if node.module else []
    if node.level:
        file = _python_file(path.parents[node.level - 1].joinpath(*module_parts))
    else:
        file = _module_file(module_parts)
    if file is None:
        return UNREADABLE
    return _find(file, name, n_imports + 1) or UNREADABLE


def _class_signature(path: Path, node: ast.ClassDef, n_imports: int) -> Signature:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            signature = _parameters(item, is_method=True)
            if not signature.takes_any:
                return signature
            base = _base_signature(path, node, n_imports)  # **kwargs usually go to the base class
            return Signature(signature.names + base.names, base.takes_any)
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return UNREADABLE
    return _base_signature(path, node, n_imports)


def _base_signature(path: Path, node: ast.ClassDef, n_imports: int) -> Signature:
    """The signature of the first base class: object takes nothing."""
    if not node.bases:
        return Signature((), takes_any=False)
    base = node.bases[0]
    if not isinstance(base, ast.Name):
        return UNREADABLE
    return _find(path, base.id, n_imports + 1) or UNREADABLE


def _parameters(node: ast.FunctionDef, is_method: bool = False) -> Signature:
    positional = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if is_method:
        positional = positional[1:]
    keyword_only = [argument.arg for argument in node.args.kwonlyargs]
    return Signature((*positional, *keyword_only), takes_any=node.args.kwarg is not None)
