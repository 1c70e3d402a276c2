# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Which keys a trial or the command line may set, and with what type.

Outside a `_target_` node: the keys that exist before, with the type of their value (null and auto accept any).
Inside one: the parameters of its class, read from its source with `ast`: nothing is imported, so a typo is answered at once.
"""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import LAB, PACKAGE
from .layers import GROUPS, read_layer

KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a section",
}
INSTANTIATE = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")


def absolute_target(target: str, trial: str) -> str:
    """`.model.CNN` is the trial's own code; a target in another trial is refused, as trials stand alone."""
    target = target.replace("${package}", PACKAGE)
    own = f"{PACKAGE}.trials.{trial}"
    if target.startswith("."):
        return own + target
    if target.startswith(f"{PACKAGE}.trials.") and not target.startswith(f"{own}."):
        raise LabError(
            f"_target_: {target} is in another trial. Copy it into trials/{trial}/ and write .module.Name instead."
        )
    return target


def check_keys(values: dict[str, Any], base: dict[str, Any], trial: str, source: str, prefix: str = "") -> None:
    """Refuses keys of `values` that are not legal on top of `base`; `source` (a file) is named in the message."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        old = base.get(key)
        if name == "model" or (isinstance(value, dict) and "_target_" in value):
            check_target(value, old if isinstance(old, dict) else {}, trial, source, name)
        elif isinstance(old, dict) and "_target_" in old:
            check_target(value, old, trial, source, name)
        elif key not in base:
            raise unknown(name, dotted(base, prefix), source)
        elif isinstance(old, dict) and isinstance(value, dict) and (old or name in GROUPS):
            check_keys(value, old, trial, source, f"{name}.")
        else:
            check_type(name, value, old, source)


def unknown(name: str, known: list[str], source: str) -> LabError:
    """For a setting that does not exist: the nearest one that does, or the option of its group that would bring it."""
    group, *inside = name.split(".")
    found = {}
    for conf in (LAB / "conf", LAB.parent / "conf") if group in GROUPS and inside else ():
        found |= read_layer(conf / f"{group}.yaml").values if (conf / f"{group}.yaml").is_file() else {}
        found |= {file.stem: read_layer(file).values for file in conf.glob(f"{group}/*.yaml")}
    having = [f"{group}={option}" for option, values in found.items() if values and inside[0] in values]
    advice = f"It comes with {' or '.join(sorted(having))}" if having else "All settings: lab config trial=NAME"
    return LabError(f"{source}: unknown setting {name!r}{nearest(name, known)}. {advice}")


def check_target(value: Any, old: dict[str, Any], trial: str, source: str, name: str) -> None:
    """Checks the arguments of one `_target_` node, and of those inside it."""
    if not isinstance(value, dict):
        raise LabError(f"{source}: {name} must hold `_target_: module.Class` and its arguments, but it is {value!r}.")
    merged = {**old, **value}
    if "_target_" not in merged:
        raise LabError(
            f"{source}: {name} needs a `_target_`, for example `_target_: .model.CNN` for a class of the trial's model.py."
        )
    if not isinstance(merged["_target_"], str):
        raise LabError(f"{source}: {name}._target_ must be a dotted name, but it is {merged['_target_']!r}.")
    target = absolute_target(merged["_target_"], trial)
    legal = legal_arguments(target, f"{source}: {name}")
    for key, item in merged.items():
        if key in INSTANTIATE:
            continue
        if legal is not None and key not in legal:
            below = f" (it comes from the layer below: choose a group, `defaults: [- {name}: ...]`, instead)"
            inherited = "" if key in value else below
            raise LabError(
                f"{source}: {target} takes no argument {key!r}{nearest(key, legal)}{inherited}. It takes: {', '.join(legal)}"
            )
        previous = old.get(key)
        if isinstance(item, dict) and "_target_" in item:
            check_target(item, previous if isinstance(previous, dict) else {}, trial, source, f"{name}.{key}")
        elif key in value and key in old:
            check_type(f"{name}.{key}", item, previous, source)


def legal_arguments(target: str, where: str) -> tuple[str, ...] | None:
    """The arguments a target takes, or None when any name may be right or only an import can tell."""
    try:
        found = signature(target)
    except Missing as error:
        raise LabError(
            f"{where}._target_ is {target!r}, but {error}{nearest(target.split('.')[-1], error.known)}."
        ) from error
    return None if found is None or found.open else found.names


def check_type(name: str, value: Any, old: Any, source: str) -> None:
    """Refuses a value of another type than the one it replaces."""
    if old is None or old == "auto" or _interpolated(old) or _interpolated(value):
        return
    if value is None:
        ok = isinstance(old, str | list | dict)
    elif isinstance(old, bool) or isinstance(value, bool):
        ok = isinstance(old, bool) and isinstance(value, bool)
    elif isinstance(old, float):
        ok = isinstance(value, int | float)
    else:
        ok = isinstance(value, type(old))
    if not ok:
        raise LabError(f"{source}: {name} must be {KINDS[type(old)]} (like {old!r}), but it is {value!r}.")


def _interpolated(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def dotted(values: dict[str, Any], prefix: str = "") -> list[str]:
    """All keys, at any depth, as dotted names."""
    names = []
    for key, value in values.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += dotted(value, f"{prefix}{key}.")
    return names


# ---- what a `_target_` takes


@dataclass(frozen=True)
class Signature:
    """Parameter names of a callable; `open` when it takes **kwargs, so that any name may be right."""

    names: tuple[str, ...]
    open: bool


class Missing(Exception):
    """The target does not exist; the message says which part, `known` holds the names that do."""

    def __init__(self, message: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.known = known


def signature(target: str) -> Signature | None:
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
        raise Missing(f"there is no module {parts[0]!r}")
    rest = parts[n:]
    if len(rest) == 1:
        found = _find(path, rest[0], depth=0)
        if found is not None:
            return found if isinstance(found, Signature) else None
    if parts[0] == PACKAGE:
        names = tuple(_names(path)) if len(rest) == 1 else tuple(p.stem for p in path.parent.glob("*.py"))
        raise Missing(f"{path} defines no {rest[0]!r}", names)
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
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)] if tree else []


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
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
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
            return Signature(own.names + base.names, base.open) if isinstance(base, Signature) else own
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return "unknown"
    return _base_signature(path, node, depth)


def _base_signature(path: Path, node: ast.ClassDef, depth: int) -> Signature | str:
    if not node.bases:
        return Signature((), open=False)
    base = node.bases[0]
    return (_find(path, base.id, depth + 1) or "unknown") if isinstance(base, ast.Name) else "unknown"


def _parameters(node: ast.FunctionDef, skip_first: bool) -> Signature:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][skip_first:] + [
        a.arg for a in arguments.kwonlyargs
    ]
    return Signature(tuple(names), open=arguments.kwarg is not None)
