"""Checks the files of a composition in their order, then what was typed, and the classes that they choose."""

from __future__ import annotations

import difflib
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig

from ..errors import SYNONYMS, LabError
from ..project import Project, shown_path
from .check import SIMILAR, NewKeys, SettingsSource, check_keys, dotted_keys, unknown_setting
from .check_target import absolute_target, is_target, known_signature
from .hydra_answers import ConfigFile
from .resolve import plain_values
from .schema import takes_any_key


def check_all_typed(
    overrides: list[Override], values: dict[str, Any], source: SettingsSource
) -> dict[str, str]:
    """Each setting as Hydra takes it, by what was typed.

    An argument is checked against the class that the same line chooses, wherever that stands in it.

    Args:
        values: the composed files.
    """
    checked = {}
    for override in sorted(overrides, key=_order_of_checks):
        checked[str(override.input_line)] = check_typed(override, values, source)
        values = _values_after(override, values)
    return checked


def _order_of_checks(override: Override) -> int:
    """What is deleted comes first, then what chooses a class, then all others in their order."""
    if override.type is OverrideType.DEL:
        return 0
    return 1 if _chooses_class(override) else 2


def _chooses_class(override: Override) -> bool:
    return override.key_or_group.endswith("._target_") or is_target(plain_value(override.value()))


def _values_after(override: Override, values: dict[str, Any]) -> dict[str, Any]:
    """`values` as the settings after this one find them: what it deletes, and the class it chooses."""
    if override.type is OverrideType.DEL:
        return _without(override.key_or_group, values)
    if _chooses_class(override):
        typed = _nested(override.key_or_group.split("."), plain_value(override.value()))
        return merge_sections(values, typed)
    return values


def check_typed(override: Override, values: dict[str, Any], source: SettingsSource) -> str:
    """A single setting, such as `optimizer.lr=3e-4`, as Hydra takes it; key and type are checked.

    An argument of a class needs no `+` here, although no file holds it: the class refuses others.

    Args:
        values: the composed files.
    """
    key = override.key_or_group
    typed = str(override.input_line)
    if key == "hydra" or key.startswith("hydra."):
        return typed
    parts = key.split(".")
    section, rest = _locate(parts, values)
    is_new = rest[0] not in section
    if len(rest) > 1 and isinstance(section.get(rest[0]), list):
        return typed  # an item of a list, as data.fields.0
    is_empty_argument = is_target(section) and not is_new and section[rest[0]] is None
    if len(rest) > 1 and is_empty_argument and override.type is OverrideType.CHANGE:
        return f"++{typed}"  # null becomes a section, as data.shapes.x=[64,64]
    is_deleted = override.type is OverrideType.DEL
    has_no_parts = len(rest) > 1 and not is_new
    if has_no_parts or (is_deleted and is_new):
        raise unknown_setting(key, dotted_keys(values), source.name)
    if is_deleted:
        return typed
    if override.type is not OverrideType.CHANGE:
        source = replace(source, new_keys=NewKeys.OWN)
    check_keys(_nested(parts, plain_value(override.value())), values, source)
    if override.type is not OverrideType.CHANGE:
        return typed
    if is_new:
        _refuse_similar(section, rest[0], typed, source)
    takes_new_keys = is_new or takes_any_key(key)  # as init.prefix={encoder.: backbone.}
    return f"++{typed}" if takes_new_keys else typed


def _without(key: str, values: dict[str, Any]) -> dict[str, Any]:
    """A copy without the setting of a dotted key."""
    remaining = deepcopy(values)
    section, rest = _locate(key.split("."), remaining)
    if len(rest) == 1:
        section.pop(rest[0], None)
    return remaining


def _locate(parts: list[str], values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The innermost section that a key leads into, and the parts of the key inside it (one or more)."""
    section = values
    for depth, part in enumerate(parts[:-1]):
        if not isinstance(section.get(part), dict):
            return section, parts[depth:]
        section = section[part]
    return section, parts[-1:]


def _refuse_similar(section: dict[str, Any], key: str, typed: str, source: SettingsSource) -> None:
    """Refuses an argument that no file holds and no signature shows, where a similar one is there."""
    if not is_target(section):
        return
    target = absolute_target(section["_target_"], source.trial)
    signature = known_signature(target, source.name)
    if key in signature.names:
        return
    names = [*map(str, section), *signature.names]
    similar = difflib.get_close_matches(SYNONYMS.get(key, key), names, 1, SIMILAR)
    if similar:
        raise LabError(
            f"{source.name}: no file gives {target} an argument {key!r}; did you mean: {similar[0]}. "
            f"To add it: +{typed}"
        )


def _nested(parts: list[str], value: Any) -> dict[str, Any]:
    """`a.b=1` as {"a": {"b": 1}}."""
    for part in reversed(parts):
        value = {part: value}
    return value


def plain_value(value: Any) -> Any:
    """A parsed value as plain Python: Hydra's quoted strings become str."""
    return plain_values(DictConfig({"value": value}))["value"]


@dataclass(frozen=True)
class FileValues:
    """What files hold together, for checking keys: `all` of them, and `lab`, those of labrig/conf."""

    all: dict[str, Any]
    lab: dict[str, Any]


def check_files(files: list[ConfigFile], project: Project, trial: str) -> FileValues:
    """Checks each file against those before it, and the trial's own files against all others."""
    values: dict[str, Any] = {}
    lab: dict[str, Any] = {}
    for file in sorted(files, key=lambda file: file.of_trial):
        if file.of_lab:
            lab = merge_sections(lab, file.values)
        else:
            source = SettingsSource(shown_path(file.path, project), trial, _new_keys(file), lab)
            check_keys(file.values, values, source)
        values = merge_sections(values, file.values)
    return FileValues(values, lab)


def _new_keys(file: ConfigFile) -> NewKeys:
    if file.of_trial:
        return NewKeys.NONE
    return NewKeys.ANY if file.package else NewKeys.OWN


def merge_sections(values: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """A copy of `values` with those of a later file, section by section."""
    merged = dict(values)
    for key, value in later.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge_sections(merged[key], value)
        else:
            merged[key] = value
    return merged
