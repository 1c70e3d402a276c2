# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The words of each scheduler: schedulers.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..project import read_yaml


@cache
def load_dialect(scheduler: str) -> dict[str, Any]:
    """How a scheduler spells commands, options, variables and reasons."""
    return read_yaml(Path(__file__).parent / "schedulers.yaml")[scheduler]
