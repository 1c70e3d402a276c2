"""metrics.jsonl: the metrics of a run, a line per logged step."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import LabError
from .atomic import number
from .json_lines import JsonLines, lines_from_end, parse_line, parts_of, read_lines

ROW_KEYS = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a line that are no metrics
# How names begin that say nothing about the model; lr- are those of callbacks=lr_monitor, and
# Lightning's DeviceStatsMonitor begins with its own.
NO_RESULTS = ("train/lr", "train/grad_norm", "lr-", "DeviceStatsMonitor")


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
