"""When the steps of a run were: in which epoch, and after how many hours of training."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

MOST_MARKS = 40  # between two of them a page goes straight


@dataclass(frozen=True)
class Clock:
    """Marks of a run: at `steps`, so many `hours` were trained and so many `epochs` done."""

    steps: list[float]
    hours: list[float]
    epochs: list[float]


def clock_of(columns: dict[str, list[float]]) -> Clock:
    """The marks of a run's metrics. Time between two attempts, such as in a queue, is left out.

    Args:
        columns: step, epoch, attempt and time_unix_s of every row.
    """
    steps, attempts = columns["step"], columns["attempt"]
    if not steps:
        return Clock([], [], [])
    if steps != sorted(steps):
        order = sorted(range(len(steps)), key=steps.__getitem__)
        return clock_of({key: [column[n] for n in order] for key, column in columns.items()})
    last = len(steps) - 1
    n_marks = min(MOST_MARKS, len(steps))
    places = {place * last // max(1, n_marks - 1) for place in range(n_marks)}
    if len(set(attempts)) > 1:
        # The rows around a pause: without them its time would count as training.
        pauses = [n for n in range(1, len(steps)) if attempts[n] != attempts[n - 1]]
        places.update(pauses, (n - 1 for n in pauses))
    marks = sorted(places)
    ends = epoch_ends(columns["epoch"], steps)
    seconds = seconds_trained(
        [columns["time_unix_s"][n] for n in marks], [attempts[n] for n in marks]
    )
    return Clock(
        [steps[n] for n in marks],
        [round(each / 3600, 5) for each in seconds],
        [round(epochs_done(steps[n], ends), 4) for n in marks],
    )


def seconds_trained(times_unix_s: list[float], attempts: list[float]) -> list[float]:
    """How long a run had trained at each mark, without the time between attempts."""
    total_s = 0.0
    seconds = [total_s]
    for (time_s, attempt), (later_s, later) in pairwise(zip(times_unix_s, attempts, strict=True)):
        if attempt == later:
            total_s += max(0.0, later_s - time_s)
        seconds.append(total_s)
    return seconds


def epoch_ends(epochs: list[float], steps: list[float]) -> list[tuple[float, float]]:
    """(step, epochs done) where epochs ended, from (0, 0) on.

    The last epoch may not have ended: it counts as long as the one before it.
    """
    last_steps = dict(zip(epochs, steps, strict=True))
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
