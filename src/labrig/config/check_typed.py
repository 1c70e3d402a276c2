"""Checks the settings that were typed against the composed files."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig

from .check import OPEN, NewKeys, Source, check_keys, dotted_keys, unknown_setting
from .check_target import absolute_target, argument_names, is_target
from .resolve import plain_values


def check_typed(override: Override, values: dict[str, Any], source: Source) -> str:
    """A single setting, such as `optimizer.lr=3e-4`, as Hydra takes it; key and type are checked.

    An argument that its class is known to take needs no `+` here, although no file holds it.

    Args:
        values: the composed files.

    Raises:
        LabError: an unknown key, a value of another type, or an argument that a class does not take.
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
    if len(rest) > 1 and not is_new:  # a part of something that has no parts
        raise unknown_setting(key, dotted_keys(values), source.name)
    if override.type is OverrideType.DEL:
        if is_new:
            raise unknown_setting(key, dotted_keys(values), source.name)
        return typed
    if override.type is not OverrideType.CHANGE:
        source = replace(source, new_keys=NewKeys.OWN)
    check_keys(_nested(parts, _plain(override.value())), values, source)
    takes_new_keys = key in OPEN  # as init.prefix={encoder.: backbone.}
    takes_new_keys |= is_new and _needs_no_plus(section, source)
    if takes_new_keys and override.type is OverrideType.CHANGE:
        return f"++{typed}"
    return typed


def without_deleted(override: Override, values: dict[str, Any]) -> dict[str, Any]:
    """`values` as the settings after this one find them: a copy without the key that `~key` deletes."""
    if override.type is not OverrideType.DEL:
        return values
    remaining = deepcopy(values)
    section, rest = _locate(override.key_or_group.split("."), remaining)
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


def _needs_no_plus(section: dict[str, Any], source: Source) -> bool:
    """Whether a new key is known to be right: its section takes any, or its class has the argument."""
    if not is_target(section):
        return True
    target = absolute_target(section["_target_"], source.trial)
    return argument_names(target, source.name) is not None


def _nested(parts: list[str], value: Any) -> dict[str, Any]:
    """`a.b=1` as {"a": {"b": 1}}."""
    for part in reversed(parts):
        value = {part: value}
    return value


def _plain(value: Any) -> Any:
    """A parsed value as plain Python: Hydra's quoted strings become str."""
    return plain_values(DictConfig({"value": value}))["value"]
