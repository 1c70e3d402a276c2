# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks the keys of one file, or of the command line, against those of the files before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import LabError, nearest
from ..project import LAB
from .check_target import check_target, is_target
from .check_type import check_type
from .layers import GROUPS, read_layer


@dataclass(frozen=True)
class Source:
    """Where settings were written: `name` is a file or "command line"; `trial` is the one being composed."""

    name: str
    trial: str = ""


def check_keys(
    values: dict[str, Any], base: dict[str, Any], source: Source, prefix: str = ""
) -> None:
    """Checks `values` against `base`; `prefix` is the section that both belong to, "" or with a dot at its end.

    Raises:
        LabError: a key that does not exist, a value of another type, or a wrong `_target_` or argument.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        default = base.get(key)
        is_model = name == "model" and not isinstance(default, dict)
        if is_model or is_target(value) or is_target(default):
            check_target(name, value, default, source.name, source.trial)
        elif key not in base:
            raise unknown_setting(name, dotted_keys(base, prefix), source.name)
        elif isinstance(value, dict) and _has_fixed_keys(name, default):
            check_keys(value, default, source, f"{name}.")
        else:
            check_type(name, value, default, source.name)


def _has_fixed_keys(name: str, section: Any) -> bool:
    """Whether a section takes only the keys it has; an empty one, such as callbacks: {}, takes any."""
    return isinstance(section, dict) and (bool(section) or name in GROUPS)


def unknown_setting(name: str, valid_names: list[str], source: str) -> LabError:
    """The error for a setting that does not exist: the nearest one, or the option of its group that has it."""
    options = _options_with(name)
    advice = "All settings: lab config trial=NAME"
    if options:
        advice = f"It comes with {' or '.join(options)}"
    return LabError(f"{source}: unknown setting {name!r}{nearest(name, valid_names)}. {advice}")


def _options_with(name: str) -> list[str]:
    """The options, as `logger=wandb`, that hold the setting `name` of their group."""
    group, _, key = name.partition(".")
    if group not in GROUPS or not key:
        return []
    settings = {}
    for folder in (LAB / "conf", LAB.parent / "conf"):
        if (folder / f"{group}.yaml").is_file():
            settings |= read_layer(folder / f"{group}.yaml").values
        for path in folder.glob(f"{group}/*.yaml"):
            settings[path.stem] = read_layer(path).values
    first = key.split(".")[0]
    return sorted(f"{group}={option}" for option, values in settings.items() if first in values)


def dotted_keys(values: dict[str, Any], prefix: str = "") -> list[str]:
    """All keys, at any depth, as dotted names."""
    names = []
    for key, value in values.items():
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += dotted_keys(value, f"{prefix}{key}.")
    return names
