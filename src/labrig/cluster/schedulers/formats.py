"""Times and memory sizes as schedulers write them."""

from __future__ import annotations

import re
from typing import Any

from ...errors import LabError

# [days-]hours:minutes[:seconds]
CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?")
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
MEMORY = re.compile(r"(\d+)([MGT]?)B?")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
UNITS_MB = {"": 1, "M": 1, "G": 1000, "T": 1_000_000}


def parse_seconds(text: Any, key: str = "job.time") -> int:
    """Seconds of a time as users write it.

    "10:00:00", "1-12:00:00" (days), "30:00" (hours:minutes), "90m", "10h", or a number of seconds.

    Args:
        key: that it is the value of, for the message.
    """
    if isinstance(text, int):
        return text
    text = str(text).strip()
    if duration := DURATION.fullmatch(text):
        number, unit = duration.groups()
        return round(float(number) * UNITS_S[unit])
    if clock := CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    raise LabError(
        f"{key}={text} is not a time."
        " Write hours:minutes:seconds (10:00:00), 1-12:00:00, 90m or 10h"
    )


def parse_megabytes(text: Any) -> int:
    """MB of "64G", "500M" or a plain number of MB.

    An MB is 10**6 bytes, or what the scheduler takes for it.
    """
    match = MEMORY.fullmatch(str(text).strip().upper())
    if not match:
        raise LabError(f"job.mem={text} is not an amount of memory per node. Write 64G or 500M")
    return int(match[1]) * UNITS_MB[match[2]]
