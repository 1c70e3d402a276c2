"""The curves of a run: a metric over steps, epochs or hours."""

from __future__ import annotations

import math
from pathlib import Path

from .metrics_file import ROW_KEYS, read_metrics

AXES = ("step", "epoch", "hours")
HOUR_S = 3600
Curve = list[tuple[float, float]]


def read_curve(run_dir: Path, metric: str, axis: str = "step") -> Curve:
    """The finite values of a metric, in order.

    Args:
        axis: step (optimizer steps), epoch (from 0), or hours (of training, without the time
            between two attempts).
    """
    rows = read_metrics(run_dir)
    places = hours_of(rows) if axis == "hours" else [row[axis] for row in rows]
    return [
        (place, row[metric])
        for place, row in zip(places, rows, strict=True)
        if metric in row and is_finite(row[metric])
    ]


def hours_of(rows: list[dict]) -> list[float]:
    """The hours of each row since the first of its attempt, after those of earlier attempts."""
    hours = []
    before_s = 0.0
    now_s = 0.0
    attempt = None
    for row in rows:
        if row["attempt"] != attempt:
            attempt = row["attempt"]
            before_s = now_s
            began_s = row["time_unix_s"]
        now_s = before_s + max(0.0, row["time_unix_s"] - began_s)
        hours.append(now_s / HOUR_S)
    return hours


def metric_names(run_dir: Path) -> list[str]:
    """The metrics of a run, in the order in which they come up."""
    names = dict.fromkeys(name for row in read_metrics(run_dir) for name in row)
    return [name for name in names if name not in ROW_KEYS]


def is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
