"""The modules that are copied: as they are, but for the names of what has moved along with them."""

from __future__ import annotations

import re

from .modules import ROOT, Import, Modules, dotted_parts, new_place
from .plan import AdoptionPlan


def add_modules(plan: AdoptionPlan, modules: Modules, files: set[str], folder: str) -> list[str]:
    """Adds files of a repository, and all that they import, below a folder of the project.

    Returns: the files, as they are named in the repository.

    Raises:
        LabError: one of them cannot be read as Python.
    """
    needed = modules.needed(files)
    code = {}
    for file in needed:
        content = with_relative_imports(plan, modules, file)
        code[new_place(file)] = content
        if content != modules.repository.content(file):
            plan.changed.append(f"{folder}/{new_place(file)}")
    if code:
        plan.add_code(folder, {"__init__.py": b""} | code)
    missing = modules.missing_packages(needed)
    if old := missing.pop("pytorch_lightning", None):
        plan.notes.ask(
            f"{old} imports pytorch_lightning, whose classes are others than those here: write "
            "import lightning.pytorch as pl"
        )
    plan.notes.ask_for_packages(missing)
    return needed


def with_relative_imports(plan: AdoptionPlan, modules: Modules, file: str) -> bytes:
    """The content of a file, in which imports name what moves along by its place relative to the file.

    `from src.a import b` becomes `from ..a import b`, `import utils` becomes `from . import utils`.
    Nothing else is changed. What a person must change, such as `import src.a`, is noted.
    """
    lines = modules.repository.content(file).splitlines(keepends=True)
    dots = "." * (1 + new_place(file).count("/"))
    for one in modules.imports(file):
        module = None if one.level else modules.file_of(one.module)
        if module is None:
            continue
        parts = [] if module == f"{ROOT}/" else dotted_parts(new_place(module))
        line = with_relative_import(lines[one.line - 1], one, dots, parts)
        if line is None:
            plan.notes.ask(
                f"{new_place(file)}:{one.line} imports {one.module}, which has moved with it: import "
                f"it from {dots}{'.'.join(parts)}"
            )
        else:
            lines[one.line - 1] = line
    return b"".join(lines)


def with_relative_import(line: bytes, one: Import, dots: str, parts: list[str]) -> bytes | None:
    """A line whose import is a relative one; None where it cannot be rewritten.

    Args:
        parts: of the module's new place, from the directory that `dots` mean.
    """
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
