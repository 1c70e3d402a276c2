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
from functools import cached_property
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
        return self.compose(f"{'' if group in self.primary.choices else '+'}{group}={option}")

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
