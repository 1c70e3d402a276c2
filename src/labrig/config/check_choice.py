"""Refuses a value that is none of the few words a setting takes, or a number that is too small.

The machinery would take any other word for one of them, and say nothing.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import LabError, nearest

CHOICES: dict[str, tuple[str | bool, ...]] = {
    "checkpoint.mode": ("min", "max"),
    "init.mismatch": ("refuse", "skip"),
    "log.progress": (True, False, "auto"),
    "logger.mlflow.mode": ("online", "offline", "auto"),
    "logger.wandb.mode": ("online", "offline", "disabled", "auto"),
    "record.code": ("refuse", "warn"),
    "record.dirty": ("snapshot", "refuse"),
    "record.env": ("warn", "refuse"),
    "speed.cudnn_benchmark": (True, False, "auto"),
    "speed.skip_unused_hooks": (False, "auto"),
}
LEAST = {"checkpoint.every_min": 0, "log.every_n_steps": 1, "log.every_s": 0}


def check_choice(name: str, value: Any, source: str) -> None:
    """Checks the value of a setting against CHOICES and LEAST.

    Args:
        name: the dotted key.
        source: the file that holds the value, or "command line", for the message.

    Raises:
        LabError: the value is none of the choices, or less than the least.
    """
    if "${" in str(value):
        return
    if name in CHOICES and value not in CHOICES[name]:
        words = [as_yaml(choice) for choice in CHOICES[name]]
        raise LabError(
            f"{source}: {name} must be {' or '.join(words)}, but it is {as_yaml(value)}"
            f"{nearest(str(value), words)}"
        )
    if name in LEAST and value < LEAST[name]:
        raise LabError(f"{source}: {name} must be at least {LEAST[name]}, but it is {value}")


def as_yaml(value: Any) -> str:
    """A value as one types it: true, false and null in place of Python's words."""
    return json.dumps(value) if isinstance(value, bool | None) else str(value)
