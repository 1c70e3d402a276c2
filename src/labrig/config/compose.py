"""From files and the command line to one checked configuration. Hydra composes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, cast

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.default_element import GroupDefault
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError
from ..machine.caches import cache_variables
from ..project import Project, resolve_paths
from .check import Source
from .check_files import check_files
from .check_target import absolute_target
from .check_typed import check_typed, without_deleted
from .defaults_list import config_files, origin_of_keys, tree_lines
from .hydra_errors import hydra_errors
from .hydra_loader import PRIMARY, project_loader
from .overrides import SOURCE, parse_overrides, typed_value
from .program import is_program
from .resolve import load_variables, plain_values, recorded_yaml, resolve
from .trial_names import trial_names
from .trial_nodes import register_trial

# Sections that are empty, instead of missing or null, when no option is chosen
MAY_BE_EMPTY = ("optimizer", "schedule", "logger", "profile", "callbacks")


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    Attributes:
        config: all interpolations resolved.
        yaml: the text to record, in which values of .env are left as ${oc.env:NAME}.
        trial: as typed, NAME or NAME/VARIANT.
        overrides: as typed.
        origin: the file, or "command line", that set each dotted key.
        choices: the option of each group.
        defaults_tree: the final defaults list, a line per element.
    """

    config: DictConfig
    yaml: str
    trial: str
    overrides: list[str] = field(default_factory=list)
    origin: dict[str, str] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    defaults_tree: list[str] = field(default_factory=list)


def compose(project: Project, overrides: list[str]) -> Composition:
    """Composes `trial=NAME` with the given overrides; imports neither torch nor any `_target_`.

    Raises:
        LabError: what is wrong, as far as the text alone shows it, with the nearest valid name.
    """
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
        source = Source(SOURCE, trial_directory(name), lab=values.lab)
        known_values = values.all
        for i, line in enumerate(lines):
            if line in settings:
                lines[i] = check_typed(settings[line], known_values, source)
                known_values = without_deleted(settings[line], known_values)
        config = loader.load_configuration(PRIMARY, lines, RunMode.RUN, from_shell=False)
        tree = tree_lines(loader, defaults.defaults_tree, project)
    config = finish_config(config, project, name)
    origin = origin_of_keys(files, project)
    origin |= {override.key_or_group: SOURCE for override in settings.values()}
    resolved = resolve(config)
    os.environ.update(cache_variables(resolved.paths.caches))
    return Composition(
        config=resolved,
        yaml=recorded_yaml(config, resolved),
        trial=name,
        overrides=overrides,
        origin=origin,
        choices=cast("dict[str, str]", dict(defaults.overrides.known_choices)),
        defaults_tree=tree,
    )


def trial_of(typed: list[Override], loader: ConfigLoaderImpl, project: Project) -> str:
    """The trial that was typed, else the one that conf/config.yaml names.

    Raises:
        LabError: neither names one, or `experiment=NAME` was typed without such a group.
    """
    experiment = typed_value(typed, "experiment")
    if experiment is not None and not loader.repository.group_exists("experiment"):
        raise LabError(f"there is no group 'experiment'; did you mean: trial={experiment}")
    name = typed_value(typed, "trial")
    if name is None:
        primary = loader.repository.load_config(PRIMARY)
        for element in (primary and primary.defaults_list) or []:
            if isinstance(element, GroupDefault) and element.group == "trial" and element.value:
                name = str(element.value)
    if name is None or name == "???":
        valid_names = ", ".join(trial_names(project)) or "none yet: lab trials new NAME"
        raise LabError(f"no trial named; add trial=NAME. Trials: {valid_names}")
    return name.strip("/")


def trial_directory(name: str) -> str:
    """The trial of a name that may have a variant: wide of wide/lowlr."""
    return name.partition("/")[0]


def finish_config(config: DictConfig, project: Project, name: str) -> DictConfig:
    """A copy with the trial's name, absolute targets and paths, and without Hydra's own section.

    Raises:
        LabError: no data, the project's own task has no model, or a target lies in another trial.
    """
    values = plain_values(config, enum_to_str=True)
    values.pop("hydra", None)
    values["trial"] = name
    for section in MAY_BE_EMPTY:
        values[section] = values.get(section) or {}
    if "data" not in values:
        raise LabError("no data chosen. Add `- data: NAME` to the defaults of conf/config.yaml.")
    task = values.get("task") or {}
    wants_model = str(task.get("_target_", "")).endswith(".task.Classifier")
    if "model" not in values and wants_model and not is_program(values):
        raise LabError(
            f"trial {name!r} has no model; add to its config.yaml:\nmodel:\n  _target_: .model.CNN"
        )
    finished = DictConfig(with_absolute_targets(values, trial_directory(name)))
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
