"""The order in which runs were created, whatever the clocks of their machines say.

Each run gets a time in UTC as `order_unix_ms`: that of its machine, or one millisecond more than
the newest run's when the machine's clock is behind. runs/.order/ holds an empty file for the newest
of these times. A new run creates its own with O_EXCL, then looks again: so it comes after every run
that was there, also when several machines create runs on a shared disk at once.
"""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DIRECTORY = ".order"


def next_order_unix_ms(runs: Path, newest_recorded: Callable[[], int]) -> int:
    """The place of a new run in the order of all, as a time in ms.

    Args:
        runs: root of all runs.
        newest_recorded: gives the largest such time in the records; asked when runs/.order is not
            there.
    """
    folder = runs / DIRECTORY
    folder.mkdir(parents=True, exist_ok=True)
    if not marks(folder):
        (folder / str(newest_recorded())).touch()
    while True:
        order_unix_ms = max(time.time_ns() // 1_000_000, max(marks(folder)) + 1)
        try:
            os.close(os.open(folder / str(order_unix_ms), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        # Its own file makes an NFS client read the directory again.
        orders_unix_ms = marks(folder)
        if max(orders_unix_ms) == order_unix_ms:
            break
    for older in orders_unix_ms:
        if older < order_unix_ms:
            (folder / str(older)).unlink(missing_ok=True)
    return order_unix_ms


def marks(folder: Path) -> list[int]:
    """The times that the files in runs/.order stand for."""
    return [int(name) for name in os.listdir(folder) if name.isdigit()]


def newest_mark(runs: Path) -> int | None:
    """The largest time that a run was given; None where none was."""
    try:
        return max(marks(runs / DIRECTORY), default=None)
    except OSError:
        return None


def order_of(facts: Mapping[str, Any]) -> int:
    """The place of a run in the order of all, as a time in ms.

    Args:
        facts: its run.json, summary or row. What lacks the place, as a damaged one, is placed by the
            time in its id.
    """
    order_unix_ms = facts.get("order_unix_ms")
    if isinstance(order_unix_ms, int):
        return order_unix_ms
    return unix_ms_of_id(facts["run_id"])


def unix_ms_of_id(run_id: str) -> int:
    """The time in a run's id, in ms."""
    day, second = run_id[:8], run_id[9:15]
    numbers = (day[:4], day[4:6], day[6:], second[:2], second[2:4], second[4:])
    try:
        return 1000 * calendar.timegm(tuple(int(number) for number in numbers))
    except ValueError:  # an id that somebody made up
        return 0
