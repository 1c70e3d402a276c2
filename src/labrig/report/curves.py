"""The curves of runs, read from metrics.jsonl and thinned to what a screen can show.

A report of 2,000 runs reads two million rows, so a file is parsed in one go, and a file that has
not changed since the last page is not read again.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..record.json_lines import raw_lines
from ..record.metrics_file import ROW_KEYS, read_metrics
from ..record.row_cache import file_stamp
from .clock import Clock, clock_of

MOST_POINTS = 1000  # of one curve: a screen has about as many columns
LARGEST = 3e38  # what four bytes can hold


@dataclass
class Curve:
    """A metric of a run: `values` at `steps`, which count optimizer steps."""

    steps: array = field(default_factory=lambda: array("d"))
    values: array = field(default_factory=lambda: array("d"))


@dataclass(frozen=True)
class RunCurves:
    """All curves of a run by metric, and when each of its steps was."""

    curves: dict[str, Curve]
    clock: Clock


class CurveReader:
    """Reads the curves of runs; those of an unchanged file only once."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[str | None, RunCurves]] = {}

    def read(self, run_dir: Path) -> RunCurves:
        stamp = file_stamp(f"{run_dir}/metrics.jsonl")
        if run_dir not in self._read or self._read[run_dir][0] != stamp:
            self._read[run_dir] = (stamp, read_curves(run_dir))
        return self._read[run_dir][1]


def read_curves(run_dir: Path) -> RunCurves:
    """The curves of a run, each with at most MOST_POINTS points."""
    rows = read_rows_fast(run_dir)
    rows_by_keys: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        rows_by_keys[tuple(row)].append(row)
    curves: dict[str, Curve] = defaultdict(Curve)
    for keys, alike in rows_by_keys.items():
        steps = array("d", [row["step"] for row in alike])
        for name in keys:
            if name not in ROW_KEYS:
                add_points(curves[name], steps, [row[name] for row in alike])
    return RunCurves(
        {name: thin(in_order(curve), MOST_POINTS) for name, curve in curves.items()},
        clock_of({key: [row[key] for row in rows] for key in ROW_KEYS}),
    )


def read_rows_fast(run_dir: Path) -> list[dict[str, Any]]:
    """As `read_metrics`; the rows of a run with one attempt are parsed in one go."""
    lines = raw_lines(run_dir / "metrics.jsonl")
    if lines and not lines[-1]:
        lines.pop()
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]")
        columns = {key: array("d", [row[key] for row in rows]) for key in ROW_KEYS}
        is_finite = all(math.isfinite(sum(column)) for column in columns.values())
        if len(rows) == len(lines) and len(set(columns["attempt"])) <= 1 and is_finite:
            return rows
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        pass  # a line was cut, or is no row: the careful reader passes over it
    return [
        row for row in read_metrics(run_dir) if all(math.isfinite(row[key]) for key in ROW_KEYS)
    ]


def add_points(curve: Curve, steps: array, values: list[Any]) -> None:
    """Adds the points whose value is a number that can be drawn."""
    try:
        numbers = array("d", values)
        # A sum with NaN or an infinity in it is not finite.
        if math.isfinite(sum(numbers)) and min(numbers) > -LARGEST and max(numbers) < LARGEST:
            curve.steps.extend(steps)
            curve.values.extend(numbers)
            return
    except (TypeError, OverflowError):
        pass
    for step, value in zip(steps, values, strict=True):
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if is_number and abs(value) < LARGEST:
            curve.steps.append(step)
            curve.values.append(value)


def in_order(curve: Curve) -> Curve:
    """The curve with its points by step."""
    steps = curve.steps.tolist()
    if steps == sorted(steps):
        return curve
    order = sorted(range(len(steps)), key=steps.__getitem__)
    return Curve(
        array("d", [steps[place] for place in order]),
        array("d", [curve.values[place] for place in order]),
    )


def thin(curve: Curve, n_points: int) -> Curve:
    """At most `n_points` points of a curve: of each stretch of it the lowest and the highest.

    So no peak is lost. The first and the last point stay.
    """
    n = len(curve.steps)
    if n <= n_points:
        return curve
    n_stretches = max(1, n_points // 2 - 1)
    places = {0, n - 1}
    for stretch in range(n_stretches):
        begin = stretch * n // n_stretches
        end = (stretch + 1) * n // n_stretches
        values = curve.values[begin:end].tolist()
        places.add(begin + values.index(min(values)))
        places.add(begin + values.index(max(values)))
    ordered = sorted(places)
    return Curve(
        array("d", [curve.steps[place] for place in ordered]),
        array("d", [curve.values[place] for place in ordered]),
    )
