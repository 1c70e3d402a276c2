# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""metrics.jsonl: the logged metrics of a run by step."""

import time
from pathlib import Path

from .atomic import number
from .json_lines import JsonLines, read_lines

ROW_KEYS = {
    "step",
    "epoch",
    "attempt",
    "time_unix_s",
}  # the keys of a line of metrics.jsonl that are no metrics
TAIL_BYTES = 1 << 16  # of metrics.jsonl, from which the last value of each metric is taken


class MetricsLog(JsonLines):
    """metrics.jsonl: the metrics of one attempt, a line per logged step; only one process of a run writes them."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir / "metrics.jsonl")
        self.attempt = attempt

    def append(self, step: int, epoch: int, metrics: dict[str, float]) -> None:
        """Writes one row at once; `step` counts optimizer steps, `epoch` is from 0."""
        about = {
            "step": step,
            "epoch": epoch,
            "attempt": self.attempt,
            "time_unix_s": round(time.time(), 3),
        }
        self.add(about | metrics)


def read_metrics(run_dir: Path, tail_bytes: int | None = None) -> list[dict]:
    """The rows by step. Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts."""
    rows: dict[tuple, dict] = {}
    for line in read_lines(Path(run_dir) / "metrics.jsonl", tail_bytes):
        if line.keys() >= ROW_KEYS:
            key = (line["step"], frozenset(line))
            if key not in rows or rows[key]["attempt"] <= line["attempt"]:
                rows[key] = {name: number(value) for name, value in line.items()}
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def last_metrics(run_dir: Path) -> dict[str, float]:
    """The newest value of each metric, from the end of the file alone."""
    rows = sorted(read_metrics(run_dir, TAIL_BYTES), key=lambda row: row["attempt"])
    return {name: value for row in rows for name, value in row.items() if name not in ROW_KEYS}
