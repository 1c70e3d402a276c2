"""The draft of a profile: what a scheduler answered, and how it writes times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .formats import CLOCK, parse_seconds

WITHOUT_GPUS = {"gpus": 0, "options": []}
MAX_LINES = 20  # of an answer that could not be read


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
