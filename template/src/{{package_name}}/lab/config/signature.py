# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Parameter names of a `_target_`, read from its source with `ast`; nothing is imported."""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..project import LAB, PACKAGE


@dataclass(frozen=True)
class Signature:
    """Parameter names of a callable; `open` when it takes **kwargs, so that any name may be right."""

    names: tuple[str, ...]
    open: bool


class MissingTarget(Exception):
    """The target does not exist; the message says which part, `known` holds the names that do."""

    def __init__(self, message: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.known = known


def signature_of(target: str) -> Signature | None:
    """The signature of a dotted class or function name; None when only an import could tell (compiled or dynamic code).

    Raises:
        Missing: a module of this package has no such name, or the top-level package is not installed.
    """
    parts = target.split(".")
    for n in range(len(parts) - 1, 0, -1):
        path = _module_file(".".join(parts[:n]))
        if path is not None:
            break
    else:
        if parts[0] != PACKAGE and importlib.util.find_spec(parts[0]) is not None:
            return None
        raise MissingTarget(f"there is no module {parts[0]!r}")
    rest = parts[n:]
    if len(rest) == 1:
        found = _find(path, rest[0], depth=0)
        if found is not None:
            return found if isinstance(found, Signature) else None
    if parts[0] == PACKAGE:
        names = (
            tuple(_names(path))
            if len(rest) == 1
            else tuple(p.stem for p in path.parent.glob("*.py"))
        )
        raise MissingTarget(f"{path} defines no {rest[0]!r}", names)
    return None


@cache
def _module_file(module: str) -> Path | None:
    """The .py file of a module, found without importing its parents."""
    top, *rest = module.split(".")
    if top == PACKAGE:
        directory: Path | None = LAB.parent
    else:
        spec = importlib.util.find_spec(top)
        if spec is None or spec.origin is None:
            return None
        directory = Path(spec.origin).parent
        if not spec.submodule_search_locations:
            return Path(spec.origin) if not rest and spec.origin.endswith(".py") else None
    for part in rest[:-1]:
        directory = directory / part
    package = directory / rest[-1] if rest else directory
    candidates = (package / "__init__.py", package.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return None


def _names(path: Path) -> list[str]:
    tree = _tree(path)
    return (
        [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        if tree
        else []
    )


def _find(path: Path, name: str, depth: int) -> Signature | str | None:
    """The signature of `name` in a file; "unknown" when it is there but cannot be read; None when it is not there."""
    tree = _tree(path)
    if tree is None or depth > 8:
        return "unknown"
    star = False
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node in tree.body:
            return _parameters(node, skip_first=False)
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _class_signature(path, node, depth)
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                star = star or alias.name == "*"
                if (alias.asname or alias.name) == name:
                    return _follow(path, node, alias.name, depth)
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return "unknown"
    return "unknown" if star else None


def _follow(path: Path, node: ast.ImportFrom, name: str, depth: int) -> Signature | str:
    base = node.module or ""
    if node.level:
        directory = path.parent
        for _ in range(node.level - 1):
            directory = directory.parent
        target = directory.joinpath(*base.split(".")) if base else directory
        files = [target / "__init__.py", target.with_suffix(".py")]
        file = next((f for f in files if f.is_file()), None)
    else:
        file = _module_file(base)
    if file is None:
        return "unknown"
    return _find(file, name, depth + 1) or "unknown"


def _class_signature(path: Path, node: ast.ClassDef, depth: int) -> Signature | str:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            own = _parameters(item, skip_first=True)
            if not own.open:
                return own
            base = _base_signature(path, node, depth)  # **kwargs usually go to the base class
            return (
                Signature(own.names + base.names, base.open) if isinstance(base, Signature) else own
            )
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return "unknown"
    return _base_signature(path, node, depth)


def _base_signature(path: Path, node: ast.ClassDef, depth: int) -> Signature | str:
    if not node.bases:
        return Signature((), open=False)
    base = node.bases[0]
    return (
        (_find(path, base.id, depth + 1) or "unknown") if isinstance(base, ast.Name) else "unknown"
    )


def _parameters(node: ast.FunctionDef, skip_first: bool) -> Signature:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][skip_first:] + [
        a.arg for a in arguments.kwonlyargs
    ]
    return Signature(tuple(names), open=arguments.kwarg is not None)
