"""Checks the keys of one file, or of the command line, against those of the files before it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..errors import LabError, nearest
from ..project import CONF, read_yaml, this_project
from .check_target import check_target, is_target
from .schema import all_settings, check_value, takes_any_key, value_of
from .setting import KnownSetting
from .trainer_arguments import check_trainer_argument, is_trainer_argument, trainer_settings

SIMILAR = 0.8  # ratio of difflib from which two names count as the same word


class NewKeys(Enum):
    """Which keys a source may add to those of the files before it."""

    NONE = "none"  # a trial, a variant, the command line, the profile of a site
    OWN = "own"  # config.yaml, +key=value: outside the sections of the library, unless misspelt
    ANY = "any"  # an option of a group: anywhere, unless misspelt


@dataclass(frozen=True)
class SettingsSource:
    """Where settings were written, and what they may do there.

    Attributes:
        name: a file, or "command line".
        trial: the one that is composed.
        lab: the content of the chosen files of labrig/conf.
        settings: those of the library, by their names in this source.
    """

    name: str
    trial: str = ""
    new_keys: NewKeys = NewKeys.NONE
    lab: dict[str, Any] = field(default_factory=dict)
    settings: Mapping[str, KnownSetting] = field(default_factory=all_settings)


def check_keys(
    values: dict[str, Any], base: dict[str, Any], source: SettingsSource, prefix: str = ""
) -> None:
    """Checks `values` against `base`.

    Args:
        prefix: the section that both belong to, "" or with a dot at its end.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        default: Any = base.get(key)
        _refuse_option(name, value, default, source)
        if prefix == "trainer.":
            _check_trainer_key(name, value, base, source)
        elif is_target(value) or is_target(default) or _is_model_of_trial(name, default, source):
            check_target(name, value, default, source.name, source.trial)
        elif key not in base:
            _check_new_key(str(key), value, base, source, prefix)
            if isinstance(value, dict):
                check_keys(value, {}, source, f"{name}.")
            elif takes_any_key(prefix.rstrip(".")):
                check_value(name, value, None, source.name, source.settings)
        elif isinstance(value, dict) and isinstance(default, dict):
            check_keys(value, default, source, f"{name}.")
        elif not (value is None and source.new_keys is NewKeys.ANY):
            check_value(name, value, default, source.name, source.settings)


def _check_trainer_key(name: str, value: Any, base: dict[str, Any], source: SettingsSource) -> None:
    """Checks a key of the section `trainer`: ours, or an argument of Lightning's Trainer."""
    default = base.get(name.removeprefix("trainer."))
    is_ours = name in source.settings
    if not is_ours and not is_trainer_argument(name):
        raise unknown_setting(name, dotted_keys(base, "trainer."), source.name)
    check_trainer_argument(name, value, source.name)
    if is_ours:
        check_value(name, value, default, source.name, source.settings)
    elif isinstance(value, dict) and (is_target(value) or is_target(default)):
        check_target(name, value, default, source.name, source.trial)


def _refuse_option(name: str, value: Any, default: Any, source: SettingsSource) -> None:
    """Refuses `optimizer: sgd`, which would replace the section by a text."""
    is_group = any((conf / name).is_dir() for conf in (CONF, this_project().source / "conf"))
    if isinstance(value, str) and isinstance(default, dict) and is_group:
        override = "override /" if source.new_keys is NewKeys.NONE else ""
        raise LabError(
            f"{source.name}: {name} is a section, but here it is {value!r}.\n"
            "To choose an option of the group, write at the top of the file:\n"
            f"defaults:\n  - {override}{name}: {value}"
        )


def _is_model_of_trial(name: str, default: Any, source: SettingsSource) -> bool:
    is_free = isinstance(default, dict)  # a group of the user's own has made it a section
    return name == "model" and source.new_keys is NewKeys.NONE and not is_free


def _check_new_key(
    key: str, value: Any, base: dict[str, Any], source: SettingsSource, prefix: str
) -> None:
    section = prefix.rstrip(".")
    if source.new_keys is NewKeys.NONE:
        if not _takes_any_key(section, base):
            raise unknown_setting(f"{prefix}{key}", dotted_keys(base, prefix), source.name)
        return
    lab_section = value_of(section, source.lab) if section else source.lab
    if not isinstance(lab_section, dict):
        return
    is_closed = section != "" and not _takes_any_key(section, lab_section)
    if source.new_keys is NewKeys.OWN and is_closed:
        raise unknown_setting(f"{prefix}{key}", dotted_keys(base, prefix), source.name)
    if word := _meant(key, value, lab_section):
        raise LabError(
            f"{source.name}: unknown setting {prefix + key!r}; did you mean: {prefix}{word}\n"
            f"For a setting of your own, choose a name less like {word!r}."
        )


def _takes_any_key(section: str, keys: dict[str, Any]) -> bool:
    """Whether any key is right: in an empty section, unless its keys come with an option."""
    if section == "program" and keys:
        return False  # its trial has named them all
    is_group_of_lab = (CONF / section).is_dir()
    return takes_any_key(section) or not (keys or is_group_of_lab)


def _meant(key: str, value: Any, section: dict[str, Any]) -> str | None:
    """The key of a section of which `key` is probably a misspelling.

    A section is no misspelling of a value, such as `train: true` of the section `trainer`.
    """
    is_section = isinstance(value, dict)
    names = [str(name) for name in section if isinstance(section[name], dict) == is_section]
    return next(iter(difflib.get_close_matches(key, names, 1, SIMILAR)), None)


def unknown_setting(name: str, valid_names: list[str], source: str) -> LabError:
    """The error for an unknown setting: the nearest one, or the option of its group that has it."""
    options = [option for option in _options_with(name) if not source.endswith(_file_of(option))]
    valid_names = [*valid_names, *trainer_settings()]
    advice = "All settings: lab config trial=NAME"
    if options:
        advice = f"It comes with {' or '.join(options)}"
    return LabError(f"{source}: unknown setting {name!r}{nearest(name, valid_names)}. {advice}")


def _options_with(name: str) -> list[str]:
    """The options, as `logger=wandb`, that hold the setting `name` of their group."""
    group, _, key = name.partition(".")
    first = key.split(".")[0]
    options = set()
    for folder in (CONF / group, this_project().source / "conf" / group):
        for path in folder.glob("*.yaml"):
            if first in read_yaml(path):
                options.add(f"{group}={path.stem}")
    return sorted(options)


def _file_of(option: str) -> str:
    """conf/trainer/cpu.yaml of trainer=cpu."""
    group, _, name = option.partition("=")
    return f"conf/{group}/{name}.yaml"


def dotted_keys(values: dict[str, Any], prefix: str = "") -> list[str]:
    """All keys, at any depth, as dotted names."""
    names = []
    for key, value in values.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += dotted_keys(value, f"{prefix}{key}.")
    return names
