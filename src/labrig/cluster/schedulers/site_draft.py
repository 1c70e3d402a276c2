"""The draft of a profile: what a scheduler answered, and how it writes times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...errors import LabError

WITHOUT_GPUS = {"gpus": 0, "options": []}
MAX_LINES = 20  # of an answer that could not be read


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


@dataclass(frozen=True)
class SiteDraft:
    """Keys of a profile, and what else the scheduler answered."""

    profile: dict[str, Any]
    notes: list[str]


def hours_of(time_limit: str) -> float | None:
    """Hours of [days-]hours:minutes:seconds or minutes:seconds; None without a limit."""
    if not CLOCK.fullmatch(time_limit):
        return None
    if time_limit.count(":") < 2:
        time_limit = f"0:{time_limit}"
    return parse_seconds(time_limit) / 3600


def queue_entry(name: str, option: str, time_limit: str) -> dict[str, Any]:
    """An entry of `queues`, with its time limit where it has one."""
    hours = hours_of(time_limit)
    limit = {} if hours is None else {"max_h": hours}
    return {"name": name, "option": option} | limit


def unread_notes(command: str, answer: str) -> list[str]:
    """An answer that could not be read, as notes for whoever completes the draft."""
    lines = answer.strip().splitlines()[:MAX_LINES]
    return [f"{command} gave no answer that could be read:", *(f"    {line}" for line in lines)]
