"""What `lab adopt` is about to write: all of it is known, and checked, before the first file is made."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import OmegaConf

from ...errors import LabError, Refused
from ...project import CONF, Project
from ..files import NEW
from ..new import require_new_name

OLD_LIGHTNING = "pytorch_lightning"  # whose classes are others than those here
RUFF = b'# By lab adopt: this code keeps its style. Delete this file when the code is yours.\nexclude = ["*"]\n'


@dataclass
class Notes:
    """What a person should read: what is different here, and what he must decide."""

    different: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        if text not in self.different:
            self.different.append(text)

    def ask(self, text: str) -> None:
        if text not in self.by_hand:
            self.by_hand.append(text)

    def ask_for_packages(self, packages: dict[str, str]) -> None:
        """Names packages that are missing here, each with a place that needs it."""
        for name, place in sorted(packages.items()):
            fix = "write lightning.pytorch" if name == OLD_LIGHTNING else f"make add PACKAGE={name}"
            self.ask(f"{place} needs {name}, which neither lies next to it nor is installed: {fix}")


@dataclass
class AdoptionPlan:
    """New files of the project, by their path in it."""

    project: Project
    source: str  # what is adopted, for the headings of files
    files: dict[str, bytes] = field(default_factory=dict)
    trials: dict[str, str] = field(default_factory=dict)  # with what stood there
    notes: Notes = field(default_factory=Notes)

    @property
    def package(self) -> str:
        """The directory of the package, relative to the project."""
        return f"src/{self.project.package}"

    def add_code(self, folder: str, files: dict[str, bytes]) -> None:
        """Adds code that the formatter leaves as it is."""
        for name in (folder, f"{folder}.py"):
            self.require_new(name)
        self.files |= {f"{folder}/{name}": content for name, content in files.items()}
        self.files[f"{folder}/ruff.toml"] = RUFF

    def add_option(self, group: str, name: str, values: dict[str, Any], origin: str) -> None:
        """Adds conf/<group>/<name>.yaml."""
        self.files[f"{self.package}/conf/{group}/{name}.yaml"] = self.settings(values, origin)

    def add_trial(self, name: str, values: Mapping[str, Any], origin: str) -> None:
        """Adds trials/<name>/ with its settings, a README and an empty __init__.py."""
        folder = f"{self.package}/trials/{name}"
        self.require_new(folder)
        require_new_name(self.project, name)
        readme = NEW.format(
            name=name,
            parent="",
            question=f"Does {self.source} give its numbers here?",
            change=f"None: the code and settings of {origin}.",
        )
        self.files[f"{folder}/config.yaml"] = self.settings(values, origin)
        self.files[f"{folder}/README.md"] = readme.encode()
        self.files[f"{folder}/__init__.py"] = b""
        self.trials[name] = origin

    def settings(self, values: Mapping[str, Any], origin: str) -> bytes:
        """YAML as Hydra reads it again: a text that looks like a number is quoted."""
        heading = f"# From {origin} of {self.source}, by lab adopt. Yours to change.\n"
        return (heading + OmegaConf.to_yaml(OmegaConf.create(dict(values)))).encode()

    def free_option(self, group: str, name: str, prefix: str) -> str:
        """The name of an option that neither the project nor labrig has."""
        folders = (self.project.source / "conf" / group, CONF / group)
        is_taken = any((folder / f"{name}.yaml").exists() for folder in folders)
        return f"{prefix}_{name}" if is_taken else name

    def require_new(self, name: str) -> None:
        """Makes sure that nothing is overwritten."""
        if os.path.lexists(self.project.root / name):
            raise Refused(
                f"{name} is there already, and adopt overwrites nothing. "
                "Take another name: lab adopt PATH --as NAME"
            )

    def write(self) -> None:
        """Writes all files, unless one of them is there already."""
        for name in self.files:
            self.require_new(name)
        for name, content in self.files.items():
            path = self.project.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as file:
                file.write(content)


def trial_name(text: str) -> str:
    """A text as the name of a trial: lower-case letters, digits and _."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_0123456789")
    if not name:
        raise LabError(f"{text!r} makes no name. Give one: lab adopt PATH --as NAME")
    return name
