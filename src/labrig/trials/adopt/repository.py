"""Reads code that a stranger wrote: regular files, which module imports which, and configs composed by Hydra.

Hydra reads a copy, which holds plain files alone, and nothing about Hydra itself: its launchers and
colours are other packages.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ...errors import LabError
from ...project import parse_yaml

MAX_ENTRIES = 50_000  # files and directories, of any kind
MAX_BYTES = 1_000_000  # of a file
SUFFIXES = (".py", ".yaml", ".yml")
SKIPPED = ("__pycache__", "node_modules", "site-packages", "venv", "wandb", "mlruns")
ROOT = "src"  # of imports, or the name of the package itself, as in lightning-hydra-template
FOLDERS = ("configs", "conf", "config")
PRIMARIES = ("train", "config", "main")
NAME = re.compile(r"[\w./-]+\.yaml", re.ASCII)  # of a file that can be chosen by its name
MAX_VALUES = 20_000  # of a file, with those that an alias repeats
# - hydra: default    - override /hydra/sweeper: optuna
ABOUT_HYDRA = re.compile(r"^\s*-\s+(override\s+)?/?hydra(/\w+)?(@\S*)?\s*:.*$", re.MULTILINE)
EMPTY_DEFAULTS = re.compile(r"^defaults:[ \t]*\n(?!\s*-)", re.MULTILINE)


@dataclass(frozen=True)
class AdoptedRepository:
    """A directory with code; its files are named relative to `root`, which is resolved."""

    root: Path

    def has(self, name: str) -> bool:
        """Whether there is such a file, or with "/" at its end such a directory, and no link leads to it."""
        path = self.root / name
        try:
            is_there = path.is_dir() if name.endswith("/") else path.is_file()
            return is_there and path.resolve() == path and path.is_relative_to(self.root)
        except OSError:  # a name that is too long
            return False

    def content(self, name: str) -> bytes:
        """The bytes of a file."""
        path = self.root / name
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise LabError(
                f"{path} is {status.st_size / 1e6:.1f} MB, or no plain file. adopt reads code and "
                f"settings of up to {MAX_BYTES / 1e6:.0f} MB. Move it out of {self.root}"
            )
        return path.read_bytes()

    def text(self, name: str) -> str:
        """The text of a file, with its line ends as they are."""
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise LabError(
                f"{self.root / name} is not UTF-8: byte {error.start}. Save it as UTF-8"
            ) from error

    @cached_property
    def listed(self) -> tuple[list[str], list[str]]:
        """The Python and YAML files, and the links, which are left out; without hidden directories."""
        files, links, n_entries = [], [], 0
        for folder, folders, names in os.walk(self.root):
            n_entries += len(folders) + len(names)
            if n_entries > MAX_ENTRIES:
                raise LabError(
                    f"{self.root} holds more than {MAX_ENTRIES:,} files. Data lies next to the code: "
                    "copy the code and its configs alone into a directory, and adopt that"
                )
            folders[:] = [name for name in folders if name[0] != "." and name not in SKIPPED]
            for path in (Path(folder, name) for name in [*folders, *names]):
                if path.is_symlink():
                    links.append(path.relative_to(self.root).as_posix())
                elif path.suffix in SUFFIXES and path.is_file():
                    files.append(path.relative_to(self.root).as_posix())
        return sorted(files), sorted(links)


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


@dataclass(frozen=True)
class ForeignConfig:
    """A composed configuration, with its interpolations as they were written."""

    values: dict[str, Any]
    choices: dict[str, Any]  # the option of each group that can be chosen; None for null


@dataclass(frozen=True)
class Configs:
    """The configs of a repository."""

    repository: AdoptedRepository
    folder: str  # relative to the repository
    copy: Path  # what Hydra reads
    name: str  # of the file that names all others
    groups: dict[str, list[str]] = field(default_factory=dict)  # the options of each

    @cached_property
    def primary(self) -> ForeignConfig:
        """As it is without a choice."""
        return self.compose()

    def choose(self, group: str, option: str) -> ForeignConfig:
        """With one option of a group."""
        sign = "" if group in self.primary.choices else "+"
        return self.compose(f"{sign}{group}={option}")

    def compose(self, *overrides: str) -> ForeignConfig:
        """What Hydra makes of the files."""
        try:
            with initialize_config_dir(str(self.copy), version_base="1.3"):
                config = compose(self.name, list(overrides), return_hydra_config=True)
            choices = OmegaConf.to_container(config.hydra.runtime.choices)
            values: Any = OmegaConf.to_container(config, resolve=False)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, RecursionError) as error:
            line = str(error).replace(str(self.copy), self.folder).strip().partition("\n")[0]
            raise LabError(
                f"Hydra cannot compose {self.folder}/{self.name}.yaml "
                f"{' '.join(overrides)}: {line or type(error).__name__}. Correct it there first"
            ) from error
        values.pop("hydra", None)
        return ForeignConfig(values, cast("dict[str, Any]", choices))


@contextmanager
def configs_of(repository: AdoptedRepository) -> Iterator[Configs | None]:
    """The configs of a repository; None where there are none."""
    files, _ = repository.listed
    # The least deep, and the first name of the list
    primaries = [
        (PRIMARIES.index(path.stem), len(path.parts), path)
        for path in map(PurePosixPath, files)
        if path.stem in PRIMARIES and path.suffix == ".yaml" and path.parent.name in FOLDERS
    ]
    if not primaries:
        yield None
        return
    *_, primary = min(primaries)
    with tempfile.TemporaryDirectory(prefix="lab-adopt-") as temporary:
        configs = Configs(repository, str(primary.parent), Path(temporary), primary.stem)
        for name in filter(NAME.fullmatch, files):
            if not PurePosixPath(name).is_relative_to(primary.parent):
                continue
            inside = PurePosixPath(name).relative_to(primary.parent)
            if inside.parts[0] == "hydra":
                continue
            copy = configs.copy / inside
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(checked_text(repository, name), encoding="utf-8")
            group, _, option = str(inside.with_suffix("")).partition("/")
            if option:
                configs.groups.setdefault(group, []).append(option)
        yield configs


def checked_text(repository: AdoptedRepository, name: str) -> str:
    """A file for Hydra, without what it says about Hydra."""
    text = EMPTY_DEFAULTS.sub("", ABOUT_HYDRA.sub("", repository.text(name)))
    path = repository.root / name
    try:
        content = parse_yaml(text, MAX_VALUES)
    except (yaml.YAMLError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise LabError(f"{path} is no valid YAML: {line}. Correct it, then adopt again") from error
    about_hydra = content.get("hydra") if isinstance(content, dict) else None
    if isinstance(about_hydra, dict) and "searchpath" in about_hydra:
        raise LabError(
            f"{path} sets hydra.searchpath: it has Hydra read configs that lie elsewhere. Copy those "
            "into the repository and delete that line"
        )
    return text
