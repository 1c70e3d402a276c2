"""The differences of two nested dicts, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ABSENT = "absent"
DIGITS = (6, 9, 12, 17)  # significant; 17 tell all floats apart


def list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`key: a -> b` for every leaf that differs; keys of inner dicts are joined with dots."""
    left = flatten(before)
    right = flatten(after)
    lines = []
    for key in {**left, **right}:
        old = left.get(key, ABSENT)
        new = right.get(key, ABSENT)
        if old != new:
            lines.append(f"{key}: {' -> '.join(format_both(old, new))}")
    return lines


def format_both(old: Any, new: Any) -> tuple[str, str]:
    """Two different values as text; floats with 6 digits, or with as many as show the difference."""
    texts = ("", "")
    for digits in DIGITS:
        texts = (with_digits(old, digits), with_digits(new, digits))
        if texts[0] != texts[1]:
            break
    return texts


def with_digits(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested dict as `{"a.b": leaf}`. An empty dict is a leaf, and so is one with dots in its keys
    (init.prefix), which would be read as further keys.
    """
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value and "." not in "".join(map(str, value)):
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
