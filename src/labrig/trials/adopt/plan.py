"""What `lab adopt` is about to write: all of it is known, and checked, before the first file is made."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ...errors import LabError, Refused
from ...project import CONF, PYPROJECT, Project
from ..new import require_new_name
from .settings import Notes

README = """# {name}

**Question.** Does {source} give its numbers here?

**Change.** {change}

**Numbers.** `lab trials result {name}` writes this table.

<!-- numbers: written by lab trials result -->
<!-- end of numbers -->

**Verdict.** Open.
"""
EXCLUDED = re.compile(r"^extend-exclude\s*=\s*\[([^\]]*)\]", re.MULTILINE)
RUFF = re.compile(r"^\[tool\.ruff\][ \t]*\n", re.MULTILINE)


@dataclass
class AdoptionPlan:
    """New files of the project, by their path in it.

    Attributes:
        source: what is adopted, for the headings of files.
        changed: the copied files in which imports name another place now.
        trials: the new trials, with what stood there.
        unformatted: directories whose code stays as it is.
    """

    project: Project
    source: str
    files: dict[str, bytes] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    trials: dict[str, str] = field(default_factory=dict)
    unformatted: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    @property
    def package(self) -> str:
        """The directory of the package, relative to the project."""
        return f"src/{self.project.package}"

    def add_option(self, group: str, name: str, values: dict[str, Any], origin: str) -> None:
        """Adds conf/<group>/<name>.yaml."""
        heading = f"# From {origin} of {self.source}, by lab adopt. Yours to change.\n"
        self.files[f"{self.package}/conf/{group}/{name}.yaml"] = (
            heading + yaml_of(values)
        ).encode()

    def add_trial(self, name: str, values: Mapping[str, Any], origin: str) -> None:
        """Adds trials/<name>/ with its settings, a README and an empty __init__.py.

        Raises:
            Refused: there is one of that name.
            LabError: no trial can have that name.
        """
        folder = f"{self.package}/trials/{name}"
        if os.path.lexists(self.project.root / folder):
            raise is_there(folder)
        require_new_name(self.project, name)
        heading = f"# {origin} of {self.source}, by lab adopt. Yours to change.\n"
        change = f"None: the code and settings of {origin}."
        self.files[f"{folder}/config.yaml"] = (heading + yaml_of(values)).encode()
        self.files[f"{folder}/README.md"] = README.format(
            name=name, source=self.source, change=change
        ).encode()
        self.files.setdefault(f"{folder}/__init__.py", b"")
        self.trials[name] = origin

    def free_option(self, group: str, name: str, prefix: str) -> str:
        """The name of an option that neither the project nor labrig has."""
        folders = (self.project.source / "conf" / group, CONF / group)
        is_taken = any((folder / f"{name}.yaml").exists() for folder in folders)
        return f"{prefix}_{name}" if is_taken else name

    def check(self) -> None:
        """Makes sure that nothing is overwritten.

        Raises:
            Refused: files that are there already.
        """
        # A directory data/ would also hide the project's data.py
        names = [*self.unformatted, *(f"{folder}.py" for folder in self.unformatted), *self.files]
        there = [name for name in names if os.path.lexists(self.project.root / name)]
        if there:
            raise is_there(there[0])

    def write(self) -> None:
        """Writes all files, or none.

        Raises:
            Refused: files that are there already.
            OSError: a file cannot be written.
        """
        self.check()
        made: list[Path] = []
        try:
            for name, content in self.files.items():
                path = self.project.root / name
                made += make_folders(path.parent)
                with open(path, "xb") as file:
                    made.append(path)
                    file.write(content)
        except BaseException:
            for path in reversed(made):
                path.rmdir() if path.is_dir() else path.unlink()
            raise

    def leave_unformatted(self) -> None:
        """Adds the new code to extend-exclude of ruff in pyproject.toml, or asks for that."""
        path = self.project.root / PYPROJECT
        text = path.read_text(encoding="utf-8")
        new = with_excluded(text, self.unformatted)
        if new is None:
            self.notes.ask(
                f"{PYPROJECT} has no [tool.ruff] that adopt can extend. So that the formatter leaves "
                f"the code alone, add to extend-exclude: {', '.join(self.unformatted)}"
            )
        else:
            path.write_text(new, encoding="utf-8")


def is_there(name: str) -> Refused:
    return Refused(
        f"{name} is there already, and adopt overwrites nothing. "
        "Take another name: lab adopt PATH --as NAME"
    )


def make_folders(folder: Path) -> list[Path]:
    """Makes a directory; returns those that were missing, the outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
    return missing[::-1]


def yaml_of(values: Mapping[str, Any]) -> str:
    """YAML as Hydra reads it again: a text that looks like a number is quoted."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def with_excluded(text: str, folders: list[str]) -> str | None:
    """A pyproject.toml in which ruff leaves `folders` alone; None where that cannot be written safely."""
    entries = ", ".join(f'"{folder}"' for folder in folders)
    table = RUFF.search(text)
    if table is None:
        return None
    end = text.find("\n[", table.end())
    match = EXCLUDED.search(text, table.end(), end if end > 0 else len(text))
    if match:
        kept = match[1].strip().rstrip(",")
        entries = f"{kept}, {entries}" if kept else entries
        new = f"{text[: match.start()]}extend-exclude = [{entries}]{text[match.end() :]}"
    else:
        new = f"{text[: table.end()]}extend-exclude = [{entries}]\n{text[table.end() :]}"
    try:
        excluded = tomllib.loads(new)["tool"]["ruff"]["extend-exclude"]
    except (tomllib.TOMLDecodeError, KeyError):
        return None
    return new if set(folders) <= set(excluded) else None


def trial_name(text: str) -> str:
    """A text as the name of a trial: lower-case letters, digits and _.

    Raises:
        LabError: it has no letter.
    """
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_0123456789")
    if not name:
        raise LabError(f"{text!r} makes no name. Give one: lab adopt PATH --as NAME")
    return name
