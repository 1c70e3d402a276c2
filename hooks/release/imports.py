"""What the user's files import from the template's, by name, is still there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath

from .projects import Files, Update
from .rendered import is_template

TARGET = re.compile(r"\$\{package\}\.([\w.]+)")  # _target_: ${package}.lab.hdf5.DataModule


def check_imports(update: Update) -> list[str]:
    """The user's files of an updated project, against the template's new ones."""
    problems = []
    for path, content in update.after.items():
        if is_template(content):
            continue
        for module, name in wanted(path, content):
            if missing := _missing(update.after, module, name):
                problems.append(
                    f"after an update from {update.tag}, {path} does not find {missing}.\n"
                    "  Leave the old name in its place: a module that imports the new one"
                )
    return sorted(set(problems))


def wanted(path: str, content: bytes) -> Iterator[tuple[list[str], str]]:
    """The (module, name) that a file imports; the module as parts, from src/ on."""
    parts = list(PurePath(path).with_suffix("").parts)
    if path.endswith(".py"):
        try:
            tree = ast.parse(content)
        except SyntaxError:
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = node.module.split(".") if node.module else []
                base = parts[1 : len(parts) - node.level] if node.level else []
                for alias in node.names:
                    yield base + module, alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name.split("."), ""
    elif path.endswith((".yaml", ".yml")) and parts[0] == "src":
        for target in TARGET.findall(content.decode(errors="replace")):
            module, _, name = target.rpartition(".")
            yield [parts[1], *module.split(".")], name


def _missing(files: Files, module: list[str], name: str) -> str:
    """What is missing of a module of the project; empty when all is there, or the module is another's."""
    if not module or not any(path.startswith(f"src/{module[0]}/") for path in files):
        return ""
    stem = "src/" + "/".join(module)
    content = files.get(f"{stem}.py", files.get(f"{stem}/__init__.py"))
    if content is None:
        is_folder = any(path.startswith(f"{stem}/") for path in files)
        return "" if is_folder and not name else ".".join(module)
    is_module = f"{stem}/{name}.py" in files or f"{stem}/{name}/__init__.py" in files
    if not name or name == "*" or is_module:
        return ""
    names = _names(content)
    return "" if {name, "__getattr__"} & names else f"{name} in {'.'.join(module)}"


@cache
def _names(content: bytes) -> frozenset[str]:
    """What a module defines or imports at its top level, also in `if` and `try`."""
    names: set[str] = set()
    to_read: list[ast.AST] = [ast.parse(content)]
    while to_read:
        node = to_read.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                names.add(child.name)
            elif isinstance(child, ast.alias):
                names.add((child.asname or child.name).split(".")[0])
            elif isinstance(child, ast.Name):
                names.add(child.id)
            else:
                to_read.append(child)
    return frozenset(names)
