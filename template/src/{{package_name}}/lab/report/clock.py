# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""When the steps of a run were: in which epoch, and after how many hours of training."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MOST_MARKS = 40  # between two of them a page goes straight


@dataclass(frozen=True)
class Clock:
    """Marks of a run: at `steps`, so many `hours` were trained and so many `epochs` done."""

    steps: list[float]
    hours: list[float]
    epochs: list[float]


def clock_of(rows: list[dict[str, Any]]) -> Clock:
    """The marks of a run's metrics. Time between two attempts, such as in a queue, is left out."""
    if not rows:
        return Clock([], [], [])
    if any(later["step"] < row["step"] for row, later in pairwise(rows)):
        rows = sorted(rows, key=lambda row: row["step"])
    ends = epoch_ends(rows)
    last = len(rows) - 1
    n_marks = min(MOST_MARKS, len(rows))
    places = sorted({place * last // max(1, n_marks - 1) for place in range(n_marks)})
    # The rows around a pause: without them its time would count as training.
    pauses = [n for n in range(1, len(rows)) if rows[n]["attempt"] != rows[n - 1]["attempt"]]
    marks = [rows[place] for place in sorted({*places, *pauses, *(n - 1 for n in pauses)})]
    return Clock(
        [row["step"] for row in marks],
        [round(seconds / 3600, 5) for seconds in seconds_trained(marks)],
        [round(epochs_done(row["step"], ends), 4) for row in marks],
    )


def seconds_trained(rows: list[dict[str, Any]]) -> list[float]:
    """How long a run had trained at each row, without the time between attempts."""
    total_s = 0.0
    seconds = []
    before = rows[0]
    for row in rows:
        if row["attempt"] == before["attempt"]:
            total_s += max(0.0, row["time_unix_s"] - before["time_unix_s"])
        seconds.append(total_s)
        before = row
    return seconds


def epoch_ends(rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """(step, epochs done) where epochs ended, from (0, 0) on.

    The last epoch may not have ended: it counts as long as the one before it.
    """
    last_steps: dict[float, float] = {}
    for row in rows:
        last_steps[row["epoch"]] = row["step"]
    ends = [(0.0, float(min(last_steps)))]
    for epoch in sorted(last_steps):
        if last_steps[epoch] > ends[-1][0]:
            ends.append((last_steps[epoch], epoch + 1.0))
    if len(ends) > 2:
        length = ends[-2][0] - ends[-3][0]
        part = min(1.0, (ends[-1][0] - ends[-2][0]) / length)
        ends[-1] = (ends[-1][0], ends[-2][1] + part)
    return ends


def epochs_done(step: float, ends: list[tuple[float, float]]) -> float:
    """The epochs that were done at a step: whole ones, and a part of the current one."""
    for (begin, before), (end, after) in pairwise(ends):
        if step <= end:
            return before + (after - before) * (step - begin) / (end - begin)
    return ends[-1][1]
