# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""metrics.jsonl: one line per logged step, only ever appended, so that a killed run loses at most the line
being written."""

import json
import os
import time
from pathlib import Path
from typing import Any

from .files import plain

ABOUT = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a row that are no metrics


class MetricsLog:
    """The metrics of one attempt; only one process of a run writes them."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self.attempt = attempt
        self._file = os.open(run_dir / "metrics.jsonl", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        end = os.lseek(self._file, 0, os.SEEK_END)
        if end and os.pread(self._file, 1, end - 1) != b"\n":  # a killed attempt left half a line
            os.write(self._file, b"\n")

    def append(self, step: int, epoch: int, metrics: dict[str, float]) -> None:
        """Writes one row at once; `step` counts optimizer steps, `epoch` is from 0."""
        about = {"step": step, "epoch": epoch, "attempt": self.attempt, "time_unix_s": round(time.time(), 3)}
        os.write(self._file, (json.dumps(plain(about | metrics)) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read_metrics(run_dir: Path) -> list[dict]:
    """The rows by step. Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts; a
    cut line is passed over."""
    try:
        content = (Path(run_dir) / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return []
    rows: dict[tuple, dict] = {}
    for line in content.splitlines():
        row = parse(line)
        if row is not None:
            key = (row["step"], frozenset(row))
            if key not in rows or rows[key]["attempt"] <= row["attempt"]:
                rows[key] = row
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def last_metrics(run_dir: Path, tail_bytes: int = 1 << 16) -> dict[str, float]:
    """The newest value of each metric, from the end of the file alone."""
    try:
        with open(Path(run_dir) / "metrics.jsonl", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - tail_bytes))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    values: dict[str, float] = {}
    for row in filter(None, map(parse, lines)):
        values.update({name: value for name, value in row.items() if name not in ABOUT})
    return values


def parse(line: bytes) -> dict | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not row.keys() >= ABOUT:
        return None
    return {name: number(value) for name, value in row.items()}


def number(value: Any) -> Any:
    """NaN and infinities, which JSON cannot hold, back from their text."""
    return float(value) if value in ("nan", "inf", "-inf") else value
