"""The modules that are copied: as they are, but for the names of what has moved along with them."""

from __future__ import annotations

import re
from importlib.util import find_spec

from .modules import ROOT, Import, Modules, dotted_parts, new_place
from .plan import AdoptionPlan
from .settings import Notes


def add_modules(plan: AdoptionPlan, modules: Modules, files: set[str], folder: str) -> list[str]:
    """Adds files of a repository, and all that they import, below a folder of the project.

    Args:
        folder: relative to the project.

    Returns: the files, as they are named in the repository.

    Raises:
        LabError: one of them cannot be read as Python.
    """
    needed = modules.needed(files)
    for file in needed:
        content, left = with_relative_imports(modules, file)
        place = f"{folder}/{new_place(file)}"
        plan.files[place] = content
        if content != modules.repository.content(file):
            plan.changed.append(place)
        for line in left:
            plan.notes.ask(line)
    if needed:
        plan.files.setdefault(f"{folder}/__init__.py", b"")
        plan.unformatted.append(folder)
    ask_for_packages(plan.notes, modules.packages(needed))
    return needed


def with_relative_imports(modules: Modules, file: str) -> tuple[bytes, list[str]]:
    """The content of a file, in which imports name what moves along by its place relative to the file.

    `from src.a import b` becomes `from ..a import b`, `import utils` becomes `from . import utils`.
    Nothing else is changed. Returns what a person must change, too: `import src.a`.
    """
    content = modules.repository.content(file)
    lines = content.splitlines(keepends=True)
    left = []
    for one in modules.imports(file):
        module = None if one.level else modules.module_of(file, one)
        if module is None:
            continue
        parts = [] if module.rstrip("/") == ROOT else dotted_parts(new_place(module.rstrip("/")))
        line = with_relative_import(lines[one.line - 1], one, parts, new_place(file).count("/"))
        if line is None:
            left.append(
                f"{new_place(file)}:{one.line} imports {one.module}, which has moved with it: import "
                f"it from {'.' * (1 + new_place(file).count('/'))}{'.'.join(parts)}"
            )
        else:
            lines[one.line - 1] = line
    return b"".join(lines), left


def with_relative_import(line: bytes, one: Import, parts: list[str], depth: int) -> bytes | None:
    """A line whose import is a relative one; None where it cannot be rewritten.

    Args:
        parts: of the module's new place.
        depth: directories between the file and the place that `parts` begin at.
    """
    dots = "." * (1 + depth)
    name = re.escape(one.module)
    if one.names:
        new = f"from {dots}{'.'.join(parts)} import"
        pattern = rf"\bfrom\s+{name}\s+import\b"
    elif parts and "." not in one.module:
        new = f"from {dots}{'.'.join(parts[:-1])} import {parts[-1]}"
        pattern = rf"(?<=^)import\s+{name}(?=\s*(as\s+\w+\s*)?(#.*)?$)"
    else:
        return None
    changed, n = re.subn(pattern.encode(), new.encode(), line, count=1)
    return changed if n else None


def ask_for_packages(notes: Notes, packages: dict[str, str]) -> None:
    """Names the packages that this environment lacks, and those that are another one here.

    Args:
        packages: with a place that needs each.
    """
    old = packages.pop("pytorch_lightning", None)
    if old:
        notes.ask(
            f"{old} imports pytorch_lightning, whose classes are others than those here: write "
            "import lightning.pytorch as pl"
        )
    for name, place in sorted(packages.items()):
        if name.isidentifier() and find_spec(name) is None:
            notes.ask(f"{place} needs the package {name}: make add PACKAGE={name}")
