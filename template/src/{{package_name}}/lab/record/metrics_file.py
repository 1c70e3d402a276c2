# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""metrics.jsonl: the metrics of a run, a line per logged step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .atomic import number
from .json_lines import JsonLines, read_lines

ROW_KEYS = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a line that are no metrics
TAIL_BYTES = 1 << 16  # the end of the file, which holds the last value of each metric


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


def read_metrics(run_dir: Path, tail_bytes: int | None = None) -> list[dict[str, Any]]:
    """The rows by step.

    Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts.

    Args:
        tail_bytes: read only this much of the end of the file.
    """
    rows: dict[tuple[int, frozenset[str]], dict[str, Any]] = {}
    for line in read_lines(Path(run_dir) / "metrics.jsonl", tail_bytes):
        if not line.keys() >= ROW_KEYS:
            continue
        key = (line["step"], frozenset(line))
        if key not in rows or rows[key]["attempt"] <= line["attempt"]:
            rows[key] = {name: number(value) for name, value in line.items()}
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def last_metrics(run_dir: Path) -> dict[str, float]:
    """The newest value of each metric, from the end of the file alone."""
    metrics = {}
    for row in sorted(read_metrics(run_dir, TAIL_BYTES), key=lambda row: row["attempt"]):
        metrics |= {name: value for name, value in row.items() if name not in ROW_KEYS}
    return metrics
