"""Refuses a value of another type than the one it replaces."""

from __future__ import annotations

from typing import Any

from ..errors import LabError

TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a section",
}


def check_type(name: str, value: Any, default: Any, source: str) -> None:
    """Checks a value against the default it replaces; null and auto as default accept any.

    Args:
        name: the dotted key, for the message.
        source: the file that holds the value, or "command line", for the message.
    """
    if default is None or default in ("auto", "???") or type(default) not in TYPE_NAMES:
        return
    if _is_interpolation(default) or _is_interpolation(value):
        return
    if not _fits(value, default):
        expected = TYPE_NAMES[type(default)]
        raise LabError(
            f"{source}: {name} must be {expected} (like {default!r}), but it is {value!r}."
        )


def _fits(value: Any, default: Any) -> bool:
    if value is None:
        return isinstance(default, str | list | dict)
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


def _is_interpolation(value: Any) -> bool:
    return isinstance(value, str) and "${" in value
