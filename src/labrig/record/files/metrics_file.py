"""metrics.jsonl: the metrics of a run, a line per logged step, also as columns of numbers, read a part at a time.

A row as a dict takes ten times the memory of its line, and a long run has millions of rows.
"""

from __future__ import annotations

import json
import math
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...errors import LabError
from .atomic import number
from .json_lines import JsonLines, lines_from_end, parse_line, parts_of, read_lines

ROW_KEYS = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a line that are no metrics
# How names begin that say nothing about the model; lr- are those of callbacks=lr_monitor, and
# Lightning's DeviceStatsMonitor begins with its own.
NO_RESULTS = ("train/lr", "train/grad_norm", "lr-", "DeviceStatsMonitor")
NAN = math.nan


class MetricsLog(JsonLines):
    """The metrics of one attempt; only one process of a run writes them."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir / "metrics.jsonl")
        self.attempt = attempt

    def append(self, step: int, epoch: int, metrics: dict[str, float]) -> None:
        """Writes one row at once; `step` counts optimizer steps, `epoch` is from 0.

        Raises:
            LabError: a metric has the name of a key that every row has.
        """
        refuse_row_keys(metrics)
        row = {
            "step": step,
            "epoch": epoch,
            "attempt": self.attempt,
            "time_unix_s": round(time.time(), 3),
        }
        self.add(row | metrics)


def refuse_row_keys(names: Iterable[str]) -> None:
    """Makes sure that no metric replaces what a row says of its own place."""
    for name in sorted(ROW_KEYS.intersection(names)):
        raise LabError(
            f"no metric can be named {name!r}: each row of metrics.jsonl says its own {name} under this "
            f"name. Log it under another, such as train/{name}"
        )


def read_metrics(run_dir: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, or of speed.jsonl, by step; lines that are no rows are passed over.

    Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts.
    """
    rows: dict[tuple[int, frozenset[str]], dict[str, Any]] = {}
    for line in read_lines(Path(run_dir) / name):
        if not is_row(line):
            continue
        key = (line["step"], frozenset(line))
        if key not in rows or rows[key]["attempt"] <= line["attempt"]:
            rows[key] = {name: number(value) for name, value in line.items()}
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def count_rows(run_dir: Path) -> int:
    """How many rows the file has; half a line that a killed process left is none."""
    parts = parts_of(run_dir / "metrics.jsonl")
    return sum(part.count(b"}\n") for part in parts)


def last_metrics(run_dir: Path) -> dict[str, float]:
    """The newest value of each metric, that is the one furthest down in the file.

    Without NO_RESULTS: neither the final learning rate nor the load of a CPU is a result of a run.

    A line is parsed only when it has a combination of keys that no later line has. So a file of
    200,000 rows takes a quarter of a second.
    """
    rows = []  # the newest first
    seen = set()
    for line in lines_from_end(Path(run_dir) / "metrics.jsonl"):
        keys = tuple(line.split(b'"')[1::2])
        if keys in seen:
            continue
        row = parse_line(line)
        if row is not None and is_row(row):
            seen.add(keys)
            rows.append(row)
    metrics = {}
    for row in reversed(rows):
        metrics |= {
            name: number(value)
            for name, value in row.items()
            if name not in ROW_KEYS and not name.startswith(NO_RESULTS)
        }
    return metrics


def is_row(line: dict[str, Any]) -> bool:
    """Whether a line has the four numbers that every row has."""
    return all(isinstance(line.get(key), int | float) for key in ROW_KEYS)


class MetricColumns:
    """The metrics of a run.

    Args:
        only: names of metrics to read; None: all.

    Attributes:
        order: the rows that count, by step. Where attempts overlap, the last attempt's row of a step
            (and of the same metrics) counts.
        columns: step, epoch, attempt and time_unix_s of every row, also of one that does not count.
    """

    def __init__(self, run_dir: Path, only: set[str] | None = None) -> None:
        self.only = only
        self.columns = {key: array("d") for key in sorted(ROW_KEYS)}
        self.metrics: list[frozenset[str]] = []  # that a row may have
        self._number_of: dict[frozenset[str], int] = {}
        self._metrics_of = array("I")  # of each row, by the number of its metrics
        self._rows: dict[str, array] = defaultdict(lambda: array("I"))
        self._values: dict[str, array] = defaultdict(lambda: array("d"))
        self._mixed: set[str] = set()  # metrics whose rows are not noted in the order of the file
        for part in parts_of(run_dir / "metrics.jsonl"):
            self._add(list(rows_in(part)))
        self.order = self._rows_that_count()

    @property
    def names(self) -> list[str]:
        """The metrics, in the order in which they come up."""
        return list(self._rows)

    def points(self, name: str) -> Iterator[tuple[int, float]]:
        """The rows with a finite value of a metric, in order, each with the value."""
        rows, values = self._rows[name], self._values[name]
        pairs: Iterator[tuple[int, float]] = zip(rows, values, strict=True)
        if name in self._mixed or not isinstance(self.order, range):
            value_of = array("d", [NAN]) * len(self._metrics_of)
            for row, value in pairs:
                value_of[row] = value
            pairs = ((row, value_of[row]) for row in self.order)
        return (pair for pair in pairs if math.isfinite(pair[1]))

    def in_order(self, key: str) -> array:
        """One of step, epoch, attempt and time_unix_s of the rows that count."""
        column = self.columns[key]
        if isinstance(self.order, range):
            return column
        return array("d", (column[row] for row in self.order))

    def _add(self, rows: list[dict[str, Any]]) -> None:
        """Adds the rows of a part of the file."""
        first = len(self._metrics_of)
        for key, column in self.columns.items():
            column.extend([row[key] for row in rows])
        alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for n, row in enumerate(rows):
            alike[tuple(row)].append(n)
        numbers = array("I", [0]) * len(rows)
        for keys, places in alike.items():
            metrics = frozenset(keys) - ROW_KEYS
            number_of_metrics = self._number_of.setdefault(metrics, len(self._number_of))
            for n in places:
                numbers[n] = number_of_metrics
            for name in keys:
                if name in metrics and (self.only is None or name in self.only):
                    if self._rows[name] and self._rows[name][-1] > first + places[0]:
                        self._mixed.add(name)
                    self._rows[name].extend([first + n for n in places])
                    self._values[name].extend(as_floats([rows[n][name] for n in places]))
        self._metrics_of.extend(numbers)

    def _rows_that_count(self) -> Sequence[int]:
        steps = self.columns["step"]
        if all(step < later for step, later in pairwise(steps)):
            return range(len(steps))
        attempts, metrics = self.columns["attempt"], self._metrics_of
        order = array("I")
        ahead: deque[int] = deque()  # rows of an earlier attempt that lie after the current one
        for row, step in enumerate(steps):
            while order and steps[order[-1]] > step:
                ahead.appendleft(order.pop())
            while ahead and steps[ahead[0]] <= step:
                order.append(ahead.popleft())
            place = len(order) - 1
            while place >= 0 and steps[order[place]] == step:
                if metrics[order[place]] == metrics[row]:
                    break
                place -= 1
            if place < 0 or steps[order[place]] != step:
                order.append(row)
            elif attempts[order[place]] <= attempts[row]:
                del order[place]
                order.append(row)
        order.extend(ahead)
        every = range(len(steps))
        return every if order == array("I", every) else order


def rows_in(part: bytes) -> Iterator[dict[str, Any]]:
    """The rows in whole lines; what is no row of finite numbers is passed over."""
    lines = [line for line in part.split(b"\n") if line]
    entries: list[Any]
    try:
        entries = json.loads(b"[" + b",".join(lines) + b"]")
        if len(entries) != len(lines):
            raise ValueError("a line with several values")
    except (ValueError, RecursionError):
        entries = [parse_line(line) for line in lines]
    if are_finite_rows(entries):
        return iter(entries)
    return (entry for entry in entries if entry is not None and is_finite_row(entry))


def are_finite_rows(entries: list[Any]) -> bool:
    """Whether all entries are such rows, looked at by columns, which is faster than row by row.

    False as well for values whose sum is beyond all floats.
    """
    try:
        return all(
            math.isfinite(sum(array("d", [entry[key] for entry in entries]))) for key in ROW_KEYS
        )
    except (TypeError, KeyError, OverflowError):
        return False


def is_finite_row(entry: Any) -> bool:
    """Whether an entry is a row whose step, epoch, attempt and time can be drawn."""
    if not isinstance(entry, dict) or not is_row(entry):
        return False
    try:
        return all(math.isfinite(entry[key]) for key in ROW_KEYS)
    except OverflowError:  # an integer beyond all floats
        return False


def as_floats(values: list[Any]) -> array:
    """Numbers as they are; NaN for what is none."""
    try:
        return array("d", values)
    except (TypeError, OverflowError):
        return array("d", [as_float(number(value)) for value in values])


def as_float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else NAN
    except OverflowError:
        return NAN


def extreme_places(values: array, n_points: int) -> Sequence[int]:
    """At most `n_points` places of values: of each stretch the lowest and the highest, and both ends."""
    n = len(values)
    if n <= n_points:
        return range(n)
    n_stretches = max(1, n_points // 2 - 1)
    places = {0, n - 1}
    for stretch in range(n_stretches):
        begin = stretch * n // n_stretches
        end = (stretch + 1) * n // n_stretches
        part = values[begin:end].tolist()
        places.add(begin + part.index(min(part)))
        places.add(begin + part.index(max(part)))
    return sorted(places)
