"""The Python modules of a repository: which import which. They are parsed with `ast`; nothing is imported."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath

from ...errors import LabError
from .repository import AdoptedRepository

ROOT = "src"  # of imports, or the name of the package itself, as in lightning-hydra-template


@dataclass(frozen=True)
class Import:
    """An import of a file: `from MODULE import NAMES`, or `import MODULE` with no names."""

    line: int
    module: str  # "" for `from . import x`
    names: tuple[str, ...]
    level: int  # dots in front


class Modules:
    """The modules below the root of a repository, below its src/, and below the folder of a script."""

    def __init__(self, repository: AdoptedRepository, folder: str = "") -> None:
        self.repository = repository
        self.places = (folder, "", f"{ROOT}/")
        self.trees: dict[str, ast.Module] = {}

    def tree(self, file: str) -> ast.Module:
        """The syntax tree of a file."""
        if file not in self.trees:
            text = self.repository.text(file)
            try:
                self.trees[file] = ast.parse(text, filename=file)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
                raise LabError(
                    f"{self.repository.root / file}{line} cannot be read as Python "
                    f"{sys.version_info.major}.{sys.version_info.minor}: {error}. "
                    "Correct it or leave it out, then adopt again"
                ) from error
        return self.trees[file]

    def file_of(self, dotted: str) -> str | None:
        """The file of a module, or with "/" the directory of a package without one; None: not in here."""
        path = dotted.replace(".", "/")
        ends = ("/__init__.py", ".py", "/")
        names = [f"{place}{path}{end}" for end in ends for place in self.places]
        return next(filter(self.repository.has, names), None) if dotted else None

    def find(self, target: str) -> tuple[str, str] | None:
        """The file and the name inside it that a `_target_` means; None when it lies elsewhere."""
        parts = target.split(".")
        for n in range(len(parts) - 1, 0, -1):
            file = self.file_of(".".join(parts[:n]))
            if file is not None:
                return None if file.endswith("/") else (file, ".".join(parts[n:]))
        return None

    def imports(self, file: str) -> list[Import]:
        """The imports of a file, those inside functions too."""
        found = []
        for node in ast.walk(self.tree(file)):
            if isinstance(node, ast.ImportFrom):
                names = tuple(alias.name for alias in node.names)
                found.append(Import(node.lineno, node.module or "", names, node.level))
            elif isinstance(node, ast.Import):
                found += [Import(node.lineno, alias.name, (), 0) for alias in node.names]
        return found

    def needed(self, files: set[str]) -> list[str]:
        """`files`, all that they import, and the __init__.py above each; sorted."""
        found: set[str] = set()
        to_read: list[str | None] = [*files]
        while to_read:
            file = to_read.pop()
            if file is None or file in found or not file.endswith(".py"):
                continue
            found.add(file)
            above = [f"{parent}/__init__.py" for parent in PurePosixPath(file).parents[:-1]]
            to_read += filter(self.repository.has, above)
            for one in self.imports(file):
                module = absolute_name(file, one)
                to_read += map(self.file_of, [module, *(f"{module}.{name}" for name in one.names)])
        return sorted(found)

    def moved(self, file: str) -> tuple[bytes, list[str]]:
        """The content of a file, in which imports name what moves along by its place relative to the file.

        `from src.a import b` becomes `from ..a import b`. Nothing else is changed. Returns what a person
        must change, too, such as `import src.a`.
        """
        lines = self.repository.content(file).splitlines(keepends=True)
        dots = "." * (1 + new_place(file).count("/"))
        left = []
        for one in self.imports(file):
            module = None if one.level else self.file_of(one.module)
            if module is None:
                continue
            parts = [] if module == f"{ROOT}/" else dotted_parts(new_place(module))
            new = f"from {dots}{'.'.join(parts)} import"
            old = rf"\bfrom\s+{re.escape(one.module)}\s+import\b"
            n = one.line - 1
            lines[n], is_done = re.subn(old.encode(), new.encode(), lines[n], count=1)
            if not is_done:
                left.append(
                    f"{new_place(file)}:{one.line} imports {one.module}, which has moved with it: "
                    f"write {new} …"
                )
        return b"".join(lines), left

    def missing_packages(self, files: list[str]) -> dict[str, str]:
        """What `files` import that neither the repository nor this environment has, with one place of each."""
        found: dict[str, str] = {}
        for file in files:
            for one in self.imports(file):
                top = one.module.partition(".")[0]
                is_known = top in sys.stdlib_module_names or top in sys.modules
                if not (one.level or is_known or self.file_of(top) or find_spec(top)):
                    found.setdefault(top, f"{file}:{one.line}")
        return found


def absolute_name(file: str, one: Import) -> str:
    """The module that an import of `file` names, from the root of the repository."""
    parts = PurePosixPath(file).parent.parts if one.level else ()
    above = parts[: len(parts) - one.level + 1]
    return ".".join([*above, one.module] if one.module else above)


def dotted_parts(file: str) -> list[str]:
    """The names of a module's path: a/b/c.py and a/b/c/__init__.py are a, b, c."""
    parts = list(PurePosixPath(file.removesuffix(".py")).parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def new_place(file: str) -> str:
    """Where a file lies below the new directory: without the leading src/."""
    return file.removeprefix(f"{ROOT}/")
