"""metrics.jsonl: the metrics of a run, a line per logged step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .atomic import number
from .json_lines import JsonLines, parse_line, raw_lines, read_lines

ROW_KEYS = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a line that are no metrics
# How names begin that say nothing about the model; lr- are those of callbacks=lr_monitor.
NO_RESULTS = ("train/lr", "train/grad_norm", "lr-")


class MetricsLog(JsonLines):
    """The metrics of one attempt; only one process of a run writes them."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir / "metrics.jsonl")
        self.attempt = attempt

    def append(self, step: int, epoch: int, metrics: dict[str, float]) -> None:
        """Writes one row at once; `step` counts optimizer steps, `epoch` is from 0."""
        row = {
            "step": step,
            "epoch": epoch,
            "attempt": self.attempt,
            "time_unix_s": round(time.time(), 3),
        }
        self.add(row | metrics)


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """The rows by step; lines that are no rows are passed over.

    Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts.
    """
    rows: dict[tuple[int, frozenset[str]], dict[str, Any]] = {}
    for line in read_lines(Path(run_dir) / "metrics.jsonl"):
        if not is_row(line):
            continue
        key = (line["step"], frozenset(line))
        if key not in rows or rows[key]["attempt"] <= line["attempt"]:
            rows[key] = {name: number(value) for name, value in line.items()}
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def last_metrics(run_dir: Path) -> dict[str, float]:
    """The newest value of each metric, that is the one furthest down in the file.

    Without NO_RESULTS: the final learning rate is no result of a run.

    A line is parsed only when it has a combination of keys that no later line has. So a file of
    200,000 rows takes a quarter of a second.
    """
    rows = []  # the newest first
    seen = set()
    for line in reversed(raw_lines(Path(run_dir) / "metrics.jsonl")):
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
