"""The logger that writes metrics.jsonl of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers.logger import Logger

from ..record.metrics_file import MetricsLog


class RunDirLogger(Logger):
    """A logger that writes into the directory of the run, for one attempt."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__()
        self.run_dir = Path(run_dir)
        self.attempt = attempt

    @property
    def name(self) -> str:
        return self.run_dir.parent.name

    @property
    def version(self) -> str:
        return self.run_dir.name

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: config.yaml and run.json hold them."""


class RunFiles(RunDirLogger):
    """Writes rows of metrics.jsonl; every run has it. `step` in the file is the number of optimizer
    steps done."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__(run_dir, attempt)
        self.log: MetricsLog | None = None

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Appends a row. `step` counts from 0, as Lightning does; `epoch` is one of the metrics,
        also Lightning's way."""
        # Only now: the log belongs to the first rank alone.
        if self.log is None:
            self.log = MetricsLog(self.run_dir, self.attempt)
        values = {name: value for name, value in metrics.items() if name != "epoch"}
        if values:
            self.log.append((step or 0) + 1, int(metrics.get("epoch", 0)), values)
