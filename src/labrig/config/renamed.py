"""Old names of settings and of options of groups, which conf/renamed.yaml lists with their new ones."""

from __future__ import annotations

import re
import sys
from copy import copy
from functools import cache
from typing import Any

from hydra.core.default_element import GroupDefault, InputDefault

from ..errors import LabError
from ..project import new_names

TYPED = re.compile(r"(?P<sign>[+~]*)(?P<key>[\w./-]+)(?P<rest>.*)", re.DOTALL)


def with_new_setting(argument: str, source: str) -> str:
    """A typed setting, such as `checkpoint.every_min=5` or `site=lanta`, by its new name."""
    match = TYPED.fullmatch(argument)
    if match is None:
        return argument
    sign, key, rest = match["sign"], match["key"], match["rest"]
    for old, new in new_names("settings").items():
        if key == old or key.startswith(f"{old}."):
            if new is None:
                raise LabError(f"{source}: there is no {old} any more; leave it out")
            warn(f"{source}: {old} is now called {new}")
            return f"{sign}{new}{key.removeprefix(old)}{rest}"
    for old, new in new_names("options").items():
        group, _, option = old.rpartition("/")
        name = re.compile(rf"(?<![\w/.-]){re.escape(option)}(?![\w/.-])")
        if key == group and name.search(rest):
            warn(_option_text(source, old, str(new)))
            rest = name.sub(str(new).rpartition("/")[2], rest)
    return f"{sign}{key}{rest}"


def with_new_keys(
    values: dict[str, Any], prefix: str, source: str | None, old_names: dict[str, str | None]
) -> dict[str, Any]:
    """A copy of the settings of one file, by their new names.

    Args:
        prefix: the section that they belong to, "" or with a dot at its end.
        source: the file, for the warning; None: no warning, since nobody can change the file.
        old_names: the new name of each old one; None where nothing takes its place.
    """
    renamed = values
    for old, new in old_names.items():
        if not old.startswith(prefix):
            continue
        without, value = _without(renamed, old.removeprefix(prefix).split("."))
        if without is None:
            continue
        if new is not None and not new.startswith(prefix):
            raise LabError(f"{source}: {old} is now called {new}; write it in conf/config.yaml")
        if source is not None:
            warn(
                f"{source}: {old} is now called {new}"
                if new
                else f"{source}: there is no {old} any more, so it changes nothing"
            )
        renamed = without
        if new is not None:
            renamed = _with(without, new.removeprefix(prefix).split("."), value)
    return renamed


def with_new_options(defaults: list[InputDefault], folder: str, source: str) -> list[InputDefault]:
    """A copy of a defaults list, with the new names of the options that it chooses.

    Args:
        folder: the group of the file that holds the list; "" for the primary one.
    """
    renamed = []
    for element in defaults:
        if isinstance(element, GroupDefault) and isinstance(element.value, str):
            group = str(element.group)
            group = group[1:] if group.startswith("/") else f"{folder}/{group}".lstrip("/")
            old = f"{group}/{element.value}"
            if new := new_names("options").get(old):
                warn(_option_text(source, old, new))
                element = copy(element)
                element.value = new.rpartition("/")[2]
        renamed.append(element)
    return renamed


@cache
def warn(text: str) -> None:
    """Prints a warning, once in a process."""
    advice = "Change it there: the old name works for two releases."
    print(f"lab: {text}.\n{advice}", file=sys.stderr)


def _option_text(source: str, old: str, new: str) -> str:
    return f"{source}: {old.replace('/', '=')} is gone, and {new.replace('/', '=')} takes its place"


def _without(values: dict[str, Any], parts: list[str]) -> tuple[dict[str, Any] | None, Any]:
    """A copy without one setting, and without sections that it leaves empty; and its value."""
    first, *rest = parts
    if first not in values:
        return None, None
    if not rest:
        return {key: item for key, item in values.items() if key != first}, values[first]
    if not isinstance(values[first], dict):
        return None, None
    section, value = _without(values[first], rest)
    if section is None:
        return None, None
    without = {key: item for key, item in values.items() if key != first}
    return (values | {first: section} if section else without), value


def _with(values: dict[str, Any], parts: list[str], value: Any) -> dict[str, Any]:
    """A copy with one setting more; a value that is there already stays."""
    first, *rest = parts
    present = values.get(first)
    if rest:
        section = present if isinstance(present, dict) else {}
        return values | {first: _with(section, rest, value)}
    if isinstance(present, dict) and isinstance(value, dict):
        return values | {first: value | present}
    return {first: value} | values
