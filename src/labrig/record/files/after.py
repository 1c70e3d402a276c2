"""What the record says of how a job came about: the runs that it comes after, or the job that it repeats."""

from __future__ import annotations

from typing import Literal, TypedDict

from .forms import AbsolutePath, Int, RunId, UnixTime


class AfterRuns(TypedDict):
    """The runs that a run was submitted to come after."""

    when: Literal["finished", "ended"]  # how they must be over
    runs: dict[RunId, AbsolutePath]  # the directory of each


class Retry(TypedDict):
    """Why the job of a run was sent again by itself (job.retry), and what it asked for then."""

    attempt: Int
    because: str  # how the job before it ended
    settings: list[str]  # job.mem=96000M
    time_unix_s: UnixTime


def format_retry(retry: Retry) -> str:
    """Why a job was sent again by itself, and with which settings."""
    with_what = " ".join(retry["settings"]) or "as before"
    return f"sent again by job.retry, {with_what}; before: {retry['because']}"
