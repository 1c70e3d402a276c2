"""From files and the command line to one checked configuration. Hydra composes it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.default_element import GroupDefault
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError, nearest, require_package
from ..machine.caches import cache_variables
from ..project import Project, resolve_paths
from .check import SettingsSource
from .check_target import absolute_target, check_model, is_a, is_target, known_signature
from .check_typed import check_all_typed, check_files
from .hydra_answers import config_files, hydra_errors, origin_of_keys, tree_lines
from .hydra_loader import PRIMARY, project_loader, read_config, register_trial
from .overrides import SOURCE, parse_overrides, typed_value
from .program import refuse_without_effect
from .resolve import (
    load_variables,
    plain_values,
    resolve,
    with_plain_enums,
    without_secrets,
    yaml_of,
)
from .schema import check_resolved
from .trial_names import trial_names

# Sections that are empty, instead of missing or null, when no option is chosen
MAY_BE_EMPTY = ("optimizer", "schedule", "logger", "profile", "callbacks")
DATA_CLASS = "H5DataModule"  # whose order and augmentation the library seeds
FOLLOWS = "${seed}"


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    Attributes:
        settings: all interpolations resolved.
        recorded: the same to record, in which values of .env are left as ${oc.env:NAME}.
        trial: as typed, NAME or NAME/VARIANT.
        overrides: as typed.
        origin: the file, or "command line", that set each dotted key.
        choices: the option of each group.
        defaults_tree: the final defaults list, a line per element.
    """

    settings: dict[str, Any]
    recorded: dict[str, Any]
    trial: str
    overrides: list[str] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    defaults_tree: list[str] = field(default_factory=list)

    @cached_property
    def config(self) -> DictConfig:
        """The settings as OmegaConf's object, which a list of many points never needs."""
        return DictConfig(self.settings)

    @cached_property
    def yaml(self) -> str:
        """The text to record."""
        return yaml_of(self.recorded)

    def with_setting(self, key: str, value: Any) -> Composition:
        """The same with another value of a setting, such as `data.path`, that it has."""
        path = key.split(".")
        return replace(
            self,
            settings=with_value(self.settings, path, value),
            recorded=with_value(self.recorded, path, value),
        )


def with_value(values: Any, path: Sequence[Any], value: Any) -> Any:
    """Plain data with another value at a place; what is not on the way there is the same objects."""
    if not path:
        return value
    copied = values.copy()
    copied[path[0]] = with_value(values[path[0]], path[1:], value)
    return copied


def compose(project: Project, overrides: list[str]) -> Composition:
    """Composes `trial=NAME` with the given overrides; imports neither torch nor any `_target_`."""
    return compose_by_hydra(project, overrides).composition


@dataclass(frozen=True)
class Composed:
    """What Hydra composed, with what is needed to compose a point that differs in values only.

    Attributes:
        by_hydra: the configuration as Hydra gave it.
        finished: what `finish_config` made of it; interpolations as written.
        written: the same as plain data.
        paths_depend: whether a directory is made of other settings than those of the site.
        files: the values of the files, against which typed settings are checked.
        values_typed: the keys that the command line gave values.
    """

    composition: Composition
    by_hydra: DictConfig
    finished: DictConfig
    written: dict[str, Any]
    paths_depend: bool
    files: dict[str, Any]
    source: SettingsSource
    values_typed: frozenset[str]


def compose_by_hydra(project: Project, overrides: list[str]) -> Composed:
    """As `compose`."""
    load_variables(project)
    typed = parse_overrides(overrides)
    with project_loader(project) as loader, hydra_errors(loader, project):
        name = trial_of(typed, loader, project)
        register_trial(project, name)
        lines = [str(override.input_line) for override in typed if override.key_or_group != "trial"]
        lines.append(f"trial={name}")
        defaults = loader.compute_defaults_list(PRIMARY, lines, RunMode.RUN)
        files = config_files(loader, defaults.defaults, project)
        values = check_files(files, project, trial_directory(name))
        settings = {override.input_line: override for override in defaults.config_overrides}
        source = SettingsSource(SOURCE, trial_directory(name), lab=values.lab)
        checked = check_all_typed(list(settings.values()), values.all, source)
        lines = [checked.get(line, line) for line in lines]
        config = hydra.compose(PRIMARY, lines)
        tree = tree_lines(loader, defaults.defaults_tree, project)
    finished = finish_config(config, project, name)
    written = plain_values(finished)
    keys = frozenset(override.key_or_group for override in settings.values())
    refuse_without_effect(written, sorted(keys))
    composition = resolved_composition(
        written,
        plain_values(resolve(finished)),
        trial=name,
        overrides=overrides,
        origin=origin_of_keys(files, project) | dict.fromkeys(keys, SOURCE),
        choices=cast("dict[str, str]", dict(defaults.overrides.known_choices)),
        defaults_tree=tree,
    )
    return Composed(
        composition, config, finished, written, paths_depend(config), values.all, source, keys
    )


def paths_depend(config: DictConfig) -> bool:
    """Whether a directory is made of other settings than those of the site, such as ${seed}."""
    values = plain_values(config)
    texts = f"{values['paths']} {values['site'].get('paths')}"
    return not set(re.findall(r"\$\{([a-z]+)[.:}]", texts)) <= {"site", "oc", "package"}


def resolved_composition(
    written: dict[str, Any], settings: dict[str, Any], **facts: Any
) -> Composition:
    """The composition of settings that are resolved; leads all caches to its `paths.caches`.

    Args:
        written: the same with interpolations.
        facts: further fields of the composition.
    """
    check_resolved(written, settings)
    os.environ.update(cache_variables(settings["paths"]["caches"]))
    return Composition(settings, without_secrets(written, settings), **facts)


def trial_of(typed: list[Override], loader: ConfigLoader, project: Project) -> str:
    """The trial that was typed, else the one that conf/config.yaml names."""
    experiment = typed_value(typed, "experiment")
    if experiment is not None and "experiment" not in loader.list_groups(""):
        raise LabError(f"there is no group 'experiment'; did you mean: trial={experiment}")
    name = typed_value(typed, "trial")
    if name is None:
        primary = read_config(loader, PRIMARY)
        for element in (primary and primary.defaults_list) or []:
            if isinstance(element, GroupDefault) and element.group == "trial" and element.value:
                name = str(element.value)
    if name is None or name == "???":
        valid_names = ", ".join(trial_names(project)) or "none yet: lab trials new NAME"
        keys = [override.key_or_group for override in typed]
        typo = "".join(f", but {key!r}" for key in keys if nearest(key, ["trial"]))
        raise LabError(f"no trial named{typo}; add trial=NAME. Trials: {valid_names}")
    return name.strip("/")


def trial_directory(name: str) -> str:
    """The trial of a name that may have a variant: wide of wide/lowlr."""
    return name.partition("/")[0]


def finish_config(config: DictConfig, project: Project, name: str) -> DictConfig:
    """A copy with the trial's name, absolute targets and paths, and without Hydra's own section.

    A seed that the section `data` leaves open follows `seed`.
    """
    values = with_plain_enums(plain_values(config))
    values.pop("hydra", None)
    values["trial"] = name
    for section in MAY_BE_EMPTY:
        values[section] = values.get(section) or {}
    if "data" not in values:
        raise LabError("no data chosen. Add `- data: NAME` to the defaults of conf/config.yaml.")
    values = with_absolute_targets(values, trial_directory(name))
    check_model(values)
    values = with_seed_of_data(values)
    finished = DictConfig(values)
    paths = plain_values(resolve(finished.paths))
    merged = OmegaConf.merge(finished, {"paths": absolute_paths(paths, project)})
    return cast("DictConfig", merged)


def with_absolute_targets(values: Any, trial: str) -> Any:
    """A copy in which every `_target_` that begins with a dot names the trial's own directory."""
    if isinstance(values, list):
        return [with_absolute_targets(item, trial) for item in values]
    if not isinstance(values, dict):
        return values
    copied = {key: with_absolute_targets(item, trial) for key, item in values.items()}
    if isinstance(values.get("_target_"), str):
        copied["_target_"] = absolute_target(values["_target_"], trial)
    return copied


def absolute_paths(paths: dict[str, Any], project: Project) -> dict[str, Any]:
    """The section `paths` with variables expanded, as text, since the record is YAML."""
    texts: dict[str, Any] = {}
    for key, value in vars(resolve_paths(paths, project.root, project.package)).items():
        if isinstance(value, list):
            texts[key] = [str(path) for path in value]
        else:
            texts[key] = None if value is None else str(value)
    return texts


def with_seed_of_data(values: dict[str, Any]) -> dict[str, Any]:
    """A copy in which `data.seed` follows `seed`, where a class of data files leaves it open.

    Of any other class the seed may decide something else, such as the splits: it stays as it is.

    Args:
        values: a composed configuration, with absolute targets.
    """
    data = values["data"]
    if not is_target(data) or "seed" in data or "${" in data["_target_"]:
        return values
    signature = known_signature(data["_target_"], "data")
    takes_seed = signature.takes_any or "seed" in signature.names
    if not takes_seed or not is_a(data["_target_"], DATA_CLASS):
        return values
    return values | {"data": data | {"seed": FOLLOWS}}


def check_packages(config: DictConfig) -> None:
    """Makes sure that the packages of the chosen loggers are installed. It imports none of them."""
    for package in config.logger:
        require_package(package, f"logger={package}")
