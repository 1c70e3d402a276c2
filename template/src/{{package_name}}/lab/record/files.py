# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Files that are whole or absent: written beside, flushed to disk, renamed, so that readers never see half of one. And
files that only grow, a JSON object per line: a killed process loses at most the line being written."""

import hashlib
import json
import math
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ABOUT = {"step", "epoch", "attempt", "time_unix_s"}  # the keys of a line of metrics.jsonl that are no metrics
TAIL_BYTES = 1 << 16  # of metrics.jsonl, from which the last value of each metric is taken


def write(path: Path, text: str) -> None:
    """Puts `text` at `path` in one step; a crash at any moment leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(plain(value), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict | None:
    """The object in `path`; None when the file is missing or is not JSON.

    A network file system may show a stale or vanished file for a moment after a rename, so a bad read is
    repeated once.
    """
    for pause_s in (0.05, 0):
        try:
            value = json.loads(path.read_bytes())
            return value if isinstance(value, dict) else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            time.sleep(pause_s)
    return None


def plain(value: Any) -> Any:
    """`value` in JSON's own types: scalars of NumPy and torch as numbers, paths as text, NaN and infinities as text."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)


def number(value: Any) -> Any:
    """NaN and infinities, which JSON cannot hold, back from their text."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Lines:
    """A file of JSON objects to append to. Each line is one write, so that processes that write at once lose nothing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
        end = os.lseek(self._file, 0, os.SEEK_END)
        if end and os.pread(self._file, 1, end - 1) != b"\n":  # a killed process left half a line
            os.write(self._file, b"\n")

    def add(self, entry: dict) -> None:
        os.write(self._file, (json.dumps(plain(entry)) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path, tail_bytes: int | None = None) -> list[dict]:
    """The objects in a file of lines, or in its last bytes; a line that was cut is passed over."""
    try:
        with open(path, "rb") as file:
            if tail_bytes:
                file.seek(max(0, file.seek(0, os.SEEK_END) - tail_bytes))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        with suppress(ValueError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]


class MetricsLog(Lines):
    """metrics.jsonl: the metrics of one attempt, a line per logged step; only one process of a run writes them."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir / "metrics.jsonl")
        self.attempt = attempt

    def append(self, step: int, epoch: int, metrics: dict[str, float]) -> None:
        """Writes one row at once; `step` counts optimizer steps, `epoch` is from 0."""
        about = {"step": step, "epoch": epoch, "attempt": self.attempt, "time_unix_s": round(time.time(), 3)}
        self.add(about | metrics)


def read_metrics(run_dir: Path, tail_bytes: int | None = None) -> list[dict]:
    """The rows by step. Where attempts overlap, the last attempt's row of a step (and of the same metrics) counts."""
    rows: dict[tuple, dict] = {}
    for line in read_lines(Path(run_dir) / "metrics.jsonl", tail_bytes):
        if line.keys() >= ABOUT:
            key = (line["step"], frozenset(line))
            if key not in rows or rows[key]["attempt"] <= line["attempt"]:
                rows[key] = {name: number(value) for name, value in line.items()}
    return sorted(rows.values(), key=lambda row: (row["step"], row["time_unix_s"]))


def last_metrics(run_dir: Path) -> dict[str, float]:
    """The newest value of each metric, from the end of the file alone."""
    rows = sorted(read_metrics(run_dir, TAIL_BYTES), key=lambda row: row["attempt"])
    return {name: value for row in rows for name, value in row.items() if name not in ABOUT}
