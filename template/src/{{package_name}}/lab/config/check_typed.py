# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks the settings that were typed against the composed files."""

from __future__ import annotations

from typing import Any

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import OmegaConf

from .check import Source, check_keys, dotted_keys, unknown_setting
from .check_target import absolute_target, argument_names, is_target

SOURCE = "command line"


def check_typed(overrides: list[Override], values: dict[str, Any], trial: str) -> list[str]:
    """The settings as Hydra takes them, after checking each key and type.

    Args:
        overrides: single settings, such as `optimizer.lr=3e-4`; no choices of groups.
        values: the composed files.

    Raises:
        LabError: a key that does not exist, a value of another type, or an argument that a class does not take.
    """
    return [_checked(override, values, trial) for override in overrides]


def _checked(override: Override, values: dict[str, Any], trial: str) -> str:
    key = override.key_or_group
    parts = key.replace("[", ".").replace("]", "").split(".")
    section, rest = _locate(parts, values)
    is_new = rest[0] not in section
    if isinstance(section.get(rest[0]), list) and len(rest) > 1:
        return override.input_line  # an item of a list, as data.fields[0]
    if len(rest) > 1 and not is_new:  # a part of something that has no parts
        raise unknown_setting(key, dotted_keys(values), SOURCE)
    if override.type is OverrideType.DEL:
        if is_new:
            raise unknown_setting(key, dotted_keys(values), SOURCE)
        return override.input_line
    check_keys(_nested(parts, _plain(override.value())), values, Source(SOURCE, trial))
    if is_new and override.type is OverrideType.CHANGE and _needs_no_plus(section, trial):
        return f"++{override.input_line}"
    return override.input_line


def _locate(parts: list[str], values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The innermost section that a key leads into, and the parts of the key inside it (at least the last one)."""
    section = values
    for depth, part in enumerate(parts[:-1]):
        if not isinstance(section.get(part), dict):
            return section, parts[depth:]
        section = section[part]
    return section, parts[-1:]


def _needs_no_plus(section: dict[str, Any], trial: str) -> bool:
    """Whether a key that no file holds is known to be right: its section takes any, or its class has such an argument."""
    if not is_target(section):
        return True
    target = absolute_target(section["_target_"], trial)
    return argument_names(target, SOURCE) is not None


def _nested(parts: list[str], value: Any) -> dict[str, Any]:
    """`a.b=1` as {"a": {"b": 1}}."""
    for part in reversed(parts):
        value = {part: value}
    return value


def _plain(value: Any) -> Any:
    """A parsed value as plain Python: Hydra's quoted strings become str."""
    return OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=False)["value"]
