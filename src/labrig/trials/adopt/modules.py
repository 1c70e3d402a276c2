"""The Python modules of a repository: which import which, and what kind of class one defines.

The files are parsed with `ast`; nothing is imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ...errors import LabError
from .repository import AdoptedRepository

ROOT = "src"  # of imports, or the name of the package itself, as in lightning-hydra-template
MAX_BASES = 8  # a class is followed through so many bases
KINDS = {
    "LightningModule": "task",
    "LightningDataModule": "data",
    "Module": "network",
    "Callback": "callback",
}


@dataclass(frozen=True)
class Import:
    """An import of a file: `from MODULE import NAMES`, or `import MODULE` with no names."""

    line: int
    module: str  # "" for `from . import x`
    names: tuple[str, ...]
    level: int  # dots in front


@dataclass
class Modules:
    """The modules below `repository`, by file."""

    repository: AdoptedRepository
    trees: dict[str, ast.Module] = field(default_factory=dict)

    def __post_init__(self) -> None:
        python = [name for name in self.repository.files if name.endswith(".py")]
        self.files = {name for name in python if all(map(str.isidentifier, dotted_parts(name)))}
        self.by_name: dict[str, str] = {}  # a directory without __init__.py has its path and "/"
        for name in sorted(self.files):
            parts = dotted_parts(name)
            for n in range(1, len(parts)):
                self._add(parts[:n], "/".join(parts[:n]) + "/")
            self._add(parts, name)

    def _add(self, parts: list[str], file: str) -> None:
        """Adds a module under each name that it may be imported by."""
        for names in (parts, parts[1:] if parts[:1] == [ROOT] else []):
            if names and (not file.endswith("/") or ".".join(names) not in self.by_name):
                self.by_name[".".join(names)] = file

    def tree(self, file: str) -> ast.Module:
        """The syntax tree of a file.

        Raises:
            LabError: it is no valid Python, with its line.
        """
        if file not in self.trees:
            text = self.repository.text(file)
            try:
                self.trees[file] = ast.parse(text, filename=file)
            except SyntaxError as error:
                raise LabError(
                    f"{self.repository.root / file}:{error.lineno}: {error.msg}. "
                    f"Python {sys.version_info.major}.{sys.version_info.minor} cannot read this file"
                ) from error
            except (ValueError, RecursionError, MemoryError) as error:
                raise LabError(
                    f"{self.repository.root / file} cannot be read as Python: {error}. "
                    "Correct it or leave it out, then adopt again"
                ) from error
        return self.trees[file]

    def find(self, target: str) -> tuple[str, str] | None:
        """The file and the name inside it that a `_target_` means; None when it lies elsewhere."""
        parts = target.split(".")
        for n in range(len(parts) - 1, 0, -1):
            file = self.by_name.get(".".join(parts[:n]))
            if file is not None:
                return (file, ".".join(parts[n:])) if not file.endswith("/") else None
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

    def module_of(self, file: str, one: Import) -> str | None:
        """The file, or the directory with "/", that an import of `file` names; None: not in here."""
        if not one.level:
            return self.by_name.get(one.module)
        parts = list(PurePosixPath(file).parent.parts)
        parts = parts[: len(parts) - one.level + 1]
        return self.by_name.get(".".join([*parts, *filter(None, one.module.split("."))]))

    def imported_files(self, file: str) -> Iterator[str]:
        """The files of this repository that `file` imports."""
        for one in self.imports(file):
            module = self.module_of(file, one)
            if module is None:
                continue
            yield module
            folder = module.removesuffix("__init__.py")
            if folder.endswith("/"):
                yield from (f"{folder}{name}.py" for name in one.names)
                yield from (f"{folder}{name}/__init__.py" for name in one.names)

    def needed(self, files: set[str]) -> list[str]:
        """`files`, all that they import, and the __init__.py above each; sorted."""
        found: set[str] = set()
        to_read = list(files)
        while to_read:
            file = to_read.pop()
            if file in found or file not in self.files:
                continue
            found.add(file)
            above = [parent for parent in PurePosixPath(file).parents if parent.name]
            to_read += [f"{parent}/__init__.py" for parent in above]
            to_read += self.imported_files(file)
        return sorted(found)

    def packages(self, files: list[str]) -> dict[str, str]:
        """What `files` import from elsewhere: each package, with one place that does."""
        found: dict[str, str] = {}
        for file in files:
            for one in self.imports(file):
                top = one.module.partition(".")[0]
                is_other = not one.level and self.module_of(file, one) is None
                if is_other and top not in sys.stdlib_module_names and top not in self.by_name:
                    found.setdefault(top, f"{file}:{one.line}")
        return found

    def definition(self, file: str, name: str, depth: int = 0) -> tuple[str, ast.ClassDef] | None:
        """The class `name` of a file, or of the file that it is imported from."""
        if file not in self.files or depth > MAX_BASES:
            return None
        for node in self.tree(file).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return file, node
        for one in self.imports(file):
            module = self.module_of(file, one)
            if name in one.names and module:
                return self.definition(module.rstrip("/"), name, depth + 1)
        return None

    def kind(self, file: str, name: str, depth: int = 0) -> str:
        """What a class is: task, data, network or callback; "" where its bases do not tell."""
        found = self.definition(file, name)
        if found is None or depth > MAX_BASES:
            return ""
        file, node = found
        for base in node.bases:
            word = ast.unparse(base).rpartition(".")[2]
            kind = KINDS.get(word) or self.kind(file, word, depth + 1)
            if kind:
                return kind
        return ""


def dotted_parts(file: str) -> list[str]:
    """The names of a module's path: a/b/c.py and a/b/c/__init__.py are a, b, c."""
    parts = list(PurePosixPath(file.removesuffix(".py")).parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def new_place(file: str) -> str:
    """Where a file lies below the new directory: without the leading src/."""
    return file.removeprefix(f"{ROOT}/")
