"""What one check of `lab doctor` found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    Args:
        level: "ok", "note" or "wrong".
        text: what was found.
        advice: what to do; empty when the level is "ok".
    """

    level: str
    text: str
    advice: str = ""
