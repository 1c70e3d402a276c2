"""How many jobs a scheduler takes of one user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """A number that may not be exceeded.

    Args:
        said_by: who says so, in words.
        counted: an option with which the scheduler lists the jobs that count; "" for all of the user's.
    """

    number: int
    said_by: str
    counted: str = ""


@dataclass(frozen=True)
class Limits:
    """What a scheduler says of its limits; None where it does not say.

    Args:
        array: of the runs of one job array.
        jobs: of a user's jobs that are queued or running, each run of an array counted.
    """

    array: Limit | None = None
    jobs: Limit | None = None


def lowest(*limits: Limit | None) -> Limit | None:
    """The limit with the lowest number; None when there is none."""
    known = [limit for limit in limits if limit is not None]
    return min(known, key=lambda limit: limit.number, default=None)
