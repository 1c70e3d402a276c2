"""Moments that are typed (7d, 2026-11-01) or recorded, as seconds since 1970."""

from __future__ import annotations

import re
import time
from datetime import datetime

from ..errors import LabError

AGO = re.compile(r"(\d+(?:\.\d+)?)([hdw])")
UNIT_S = {"h": 3600, "d": 86400, "w": 7 * 86400}
MONTH = re.compile(r"\d{4}-\d{2}")


def typed_moment(text: str) -> float:
    """The moment that was typed: so long ago, or a date (the local midnight) with or without a time.

    Raises:
        LabError: it is none; with the choices.
    """
    ago = AGO.fullmatch(text)
    if ago:
        return time.time() - float(ago[1]) * UNIT_S[ago[2]]
    date = f"{text}-01" if MONTH.fullmatch(text) else text
    try:
        return datetime.fromisoformat(date).timestamp()
    except (ValueError, OverflowError) as error:
        raise LabError(
            f"{text!r} is no time. Write 12h, 7d or 2w (ago), 2026-11, 2026-11-15 or "
            "2026-11-15T18:00"
        ) from error


def recorded_moment(created: str | None) -> float:
    """`created` of a record, which is ISO 8601; 0 where it is missing or something else."""
    try:
        return datetime.fromisoformat(created or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
