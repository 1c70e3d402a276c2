# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Times and memory sizes as schedulers write them."""

from __future__ import annotations

import re
from typing import Any

from ..errors import LabError

TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?|(\d+(?:\.\d+)?)([smhd])")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
UNITS_MB = {"": 1, "M": 1, "G": 1000, "T": 1_000_000}


def parse_seconds(text: Any) -> int:
    """Seconds of "10:00:00", "1-12:00:00", "30:00" (hours:minutes), "90m", "10h" or a plain number of seconds."""
    if isinstance(text, int):
        return text
    found = TIME.fullmatch(str(text).strip())
    if not found:
        raise LabError(
            f"job.time={text} is no time. Write hours:minutes:seconds (10:00:00), 1-12:00:00, 90m or 10h"
        )
    days, hours, minutes, rest, number, unit = found.groups()
    if unit:
        return round(float(number) * UNITS_S[unit])
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(rest or 0)


def format_hms(time_s: float) -> str:
    """Seconds as hours:minutes:seconds."""
    minutes, rest = divmod(int(time_s), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def parse_megabytes(text: Any) -> int:
    """MB (10**6 bytes, or what the scheduler takes for them) of "64G", "500M" or a plain number of MB."""
    found = re.fullmatch(r"(\d+)([MGT]?)B?", str(text).strip().upper())
    if not found:
        raise LabError(f"job.mem={text} is no amount of memory per node. Write 64G or 500M")
    return int(found[1]) * UNITS_MB[found[2]]
