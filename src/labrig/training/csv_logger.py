"""The CSV logger: metrics.jsonl as a table, metrics.csv next to it."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only

from ..record.atomic import write_file
from ..record.metrics_file import read_metrics
from .run_logger import RunDirLogger

FIRST_COLUMNS = ("step", "epoch", "attempt", "time_unix_s")


class CsvFile(RunDirLogger):
    """Writes metrics.csv, a row for each of metrics.jsonl.

    The file is made again from metrics.jsonl when an attempt begins and when a metric comes up that
    has no column. So a resumed run keeps its earlier rows, which Lightning's CSVLogger erases.
    The rows that a killed attempt wrote after its last checkpoint are left out.
    """

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir, attempt)
        self.file = self.run_dir / "metrics.csv"
        self.columns: list[str] = []
        self.first_step: int | None = None

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Appends the row that the logger of metrics.jsonl has just written. `step` counts from 0."""
        names = [name for name in metrics if name != "epoch" and not name.startswith("speed/")]
        if not names:
            return
        n_steps = (step or 0) + 1
        if self.first_step is None:
            self.first_step = n_steps
        if not set(names) <= set(self.columns):
            self._write_anew()
            return
        row = {name: float(metrics[name]) for name in names}
        row |= {
            "step": n_steps,
            "epoch": int(metrics.get("epoch", 0)),
            "attempt": self.attempt,
            "time_unix_s": round(time.time(), 3),
        }
        with open(self.file, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    def _write_anew(self) -> None:
        """Writes every row of metrics.jsonl that this attempt continues from or has written."""
        rows = [
            row
            for row in read_metrics(self.run_dir)
            if row["attempt"] == self.attempt or row["step"] < self.first_step
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        self.columns = [*FIRST_COLUMNS, *(name for name in names if name not in FIRST_COLUMNS)]
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self.columns)
        table.writeheader()
        table.writerows(rows)
        write_file(self.file, text.getvalue())
