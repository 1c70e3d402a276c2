"""Composes the configs/ of another repository with Hydra. Nothing that they name is imported.

Hydra reads a copy, which holds plain files alone, and nothing about Hydra itself: its launchers and
colours are other packages.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ...errors import LabError
from ...project import parse_yaml
from .repository import AdoptedRepository

FOLDERS = ("configs", "conf", "config")
PRIMARIES = ("train", "config", "main")
NAME = re.compile(r"[\w./-]+\.yaml", re.ASCII)  # of a file that can be chosen by its name
MAX_VALUES = 20_000  # of a file, with those that an alias repeats
# - hydra: default    - override /hydra/sweeper: optuna
ABOUT_HYDRA = re.compile(r"^\s*-\s+(override\s+)?/?hydra(/\w+)?(@\S*)?\s*:.*$", re.MULTILINE)
EMPTY_DEFAULTS = re.compile(r"^defaults:[ \t]*\n(?!\s*-)", re.MULTILINE)


@dataclass(frozen=True)
class Configs:
    """The configs of a repository.

    Attributes:
        folder: relative to the repository.
        copy: what Hydra reads.
        primary: the name of the file that names all others.
        groups: the options of each group.
    """

    repository: AdoptedRepository
    folder: str
    copy: Path
    primary: str
    groups: dict[str, list[str]] = field(default_factory=dict)

    @property
    def chosen_groups(self) -> set[str]:
        """The groups that the primary file chooses an option of, or null."""
        text = (self.copy / f"{self.primary}.yaml").read_text(encoding="utf-8")
        content = parse_yaml(text)
        elements = content.get("defaults") if isinstance(content, dict) else None
        named = [element for element in elements or [] if isinstance(element, dict)]
        return {str(key).split()[-1].lstrip("/").partition("@")[0] for one in named for key in one}

    def choose(self, group: str, option: str) -> str:
        """The override that chooses an option."""
        return f"{'' if group in self.chosen_groups else '+'}{group}={option}"

    def compose(self, *overrides: str) -> ForeignConfig:
        """What Hydra makes of the files.

        Raises:
            LabError: Hydra cannot compose them.
        """
        try:
            with initialize_config_dir(str(self.copy), version_base="1.3"):
                config = compose(self.primary, list(overrides), return_hydra_config=True)
            choices = OmegaConf.to_container(config.hydra.runtime.choices)
            values: Any = OmegaConf.to_container(config, resolve=False)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, RecursionError) as error:
            (line, *_) = str(error).replace(str(self.copy), self.folder).strip().splitlines() or [
                ""
            ]
            raise LabError(
                f"Hydra cannot compose {self.folder}/{self.primary}.yaml "
                f"{' '.join(overrides)}: {line or type(error).__name__}. Correct it there first"
            ) from error
        values.pop("hydra", None)
        return ForeignConfig(values, cast("dict[str, Any]", choices))


@dataclass(frozen=True)
class ForeignConfig:
    """A composed configuration, with its interpolations as they were written."""

    values: dict[str, Any]
    choices: dict[str, Any]  # the option of each group


@contextmanager
def configs_of(repository: AdoptedRepository) -> Iterator[Configs | None]:
    """The configs of a repository; None where there are none.

    Raises:
        LabError: one of the files cannot be read, or is not safe to read.
    """
    place = primary_in(repository)
    if place is None:
        yield None
        return
    folder, primary = place
    with tempfile.TemporaryDirectory(prefix="lab-adopt-") as temporary:
        groups: dict[str, list[str]] = {}
        for name in repository.files:
            inside = PurePosixPath(name)
            if not inside.is_relative_to(folder) or not NAME.fullmatch(name):
                continue
            inside = inside.relative_to(folder)
            if inside.parts[0] == "hydra":
                continue
            copy = Path(temporary, *inside.parts)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(checked_text(repository, name), encoding="utf-8")
            if len(inside.parts) > 1:
                option = "/".join(inside.with_suffix("").parts[1:])
                groups.setdefault(inside.parts[0], []).append(option)
        yield Configs(repository, folder, Path(temporary), primary, groups)


def primary_in(repository: AdoptedRepository) -> tuple[str, str] | None:
    """The directory of the configs and the name of the primary file: the least deep that fits."""
    by_depth = sorted(repository.files, key=lambda name: (name.count("/"), name))
    for primary in PRIMARIES:
        for name in by_depth:
            path = PurePosixPath(name)
            if path.name == f"{primary}.yaml" and path.parent.name in FOLDERS:
                return str(path.parent), primary
    return None


def checked_text(repository: AdoptedRepository, name: str) -> str:
    """A file for Hydra, without what it says about Hydra.

    Raises:
        LabError: it is no YAML, is too large once its aliases are written out, or has Hydra read
            configs that lie elsewhere.
    """
    text = ABOUT_HYDRA.sub("", repository.text(name))
    text = EMPTY_DEFAULTS.sub("", text)
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
