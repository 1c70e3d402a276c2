# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The files a configuration is made of, in order: lab.yaml, conf/config.yaml, chosen groups, trial, variant."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import LabError, nearest
from ..project import LAB, Project
from .trial_names import TRIAL_NAME, trial_names, variant_names

GROUPS = ("data", "optimizer", "schedule", "trainer", "logger", "profile", "site")


@dataclass
class Layer:
    """One file's settings. `defaults` are the group options it chooses, {group: option or list of options}."""

    path: Path
    values: dict[str, Any]
    defaults: dict[str, Any] = field(default_factory=dict)


def read_layer(path: Path) -> Layer:
    """Reads one YAML file with OmegaConf's rules (1e-3 is a number, a duplicate key is an error).

    Raises:
        LabError: naming file, line and column, when it is not valid YAML or not a mapping.
    """
    try:
        content = (
            OmegaConf.to_container(OmegaConf.load(path), resolve=False)
            if path.stat().st_size
            else {}
        )
    except (yaml.YAMLError, UnicodeDecodeError, OmegaConfBaseException, OSError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise LabError(
            f"{place}: not valid YAML ({reason}). Mend that line; the other trials are not affected."
        ) from error
    if not isinstance(content, dict):
        raise LabError(
            f"{path} must hold `key: value` lines, but it holds a {type(content).__name__}."
        )
    return Layer(path, content, _choices(path, content.pop("defaults", None) or []))


def _choices(path: Path, defaults: list[Any]) -> dict[str, Any]:
    """`- optimizer: sgd` and Hydra's `- override /optimizer: sgd` -> {"optimizer": "sgd"}; `_self_` changes nothing here."""
    choices: dict[str, Any] = {}
    for entry in defaults:
        if entry == "_self_":
            continue
        if not isinstance(entry, dict) or len(entry) != 1:
            raise LabError(
                f"{path}: an entry of `defaults` must be like `- optimizer: sgd`, but one is {entry!r}."
            )
        ((key, option),) = entry.items()
        group = str(key).removeprefix("override ").strip().removeprefix("/")
        if group not in GROUPS:
            raise LabError(
                f"{path}: `defaults` names {group!r}, which is no group{nearest(group, GROUPS)}. Groups: {', '.join(GROUPS)}"
            )
        choices[group] = option
    return choices


def trial_layers(project: Project, name: str) -> list[Layer]:
    """The layers of `trial` or `trial/variant`; a LabError names the nearest one when there is none."""
    trial, _, variant = name.partition("/")
    if trial not in trial_names(project):
        known = trial_names(project)
        there = f"Trials: {', '.join(known)}" if known else "There is none yet: lab trials new NAME"
        raise LabError(f"no trial {trial!r}{nearest(trial, known)}. {there}")
    if not TRIAL_NAME.fullmatch(trial):
        raise LabError(
            f"trial name {trial!r} must be lower-case letters, digits and _, beginning with a letter."
        )
    directory = project.source / "trials" / trial
    layers = [read_layer(directory / "config.yaml")]
    if variant:
        if variant not in variant_names(project, trial):
            known = variant_names(project, trial)
            raise LabError(
                f"trial {trial!r} has no variant {variant!r}{nearest(variant, known)}. "
                f"Variants are YAML files beside its config.yaml: {', '.join(known) or 'none yet'}"
            )
        layers.append(read_layer(directory / f"{variant}.yaml"))
    return layers


def options(project: Project, group: str) -> dict[str, Path]:
    """The options of a group and their files: the top-level keys of conf/GROUP.yaml, and the files conf/GROUP/*.yaml.
    The project's own come before the template's of the same name."""
    if group == "site":
        return {
            path.stem: path
            for place in project.site_directories[::-1]
            for path in place.glob("*.yaml")
        }
    found = {}
    for folder in (LAB / "conf", project.source / "conf"):
        file = folder / f"{group}.yaml"
        found |= dict.fromkeys(read_layer(file).values, file) if file.is_file() else {}
        found |= {path.stem: path for path in (folder / group).glob("*.yaml")}
    return found


def read_option(project: Project, group: str, option: str) -> Layer:
    """The settings of one option, and the file they are in."""
    known = options(project, group)
    if option not in known:
        raise LabError(
            f"{group}={option}: no such option{nearest(str(option), known)}. Options of {group}: {', '.join(sorted(known))}"
        )
    layer = read_layer(known[option])
    alone = group == "site" or layer.path.parent.name == group  # a file of its own
    values = layer.values if alone else layer.values[option]
    if not isinstance(values, dict):
        raise LabError(
            f"{layer.path} must hold the options of {group} by name, each with its settings, but {option!r} is {values!r}. "
            f"The settings of a single option go to conf/{group}/NAME.yaml"
        )
    return Layer(layer.path, {group: values})
