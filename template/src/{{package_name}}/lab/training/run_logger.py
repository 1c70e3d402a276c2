# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The logger that writes metrics.jsonl of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers.logger import Logger

from ..record.metrics_file import MetricsLog


class RunFiles(Logger):
    """The logger that is always there: rows of metrics.jsonl. `step` in the file counts optimizer steps done, from 1."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        super().__init__()
        self.run_dir, self.attempt = Path(run_dir), attempt
        self.log: MetricsLog | None = None

    @property
    def name(self) -> str:
        return self.run_dir.parent.name

    @property
    def version(self) -> str:
        return self.run_dir.name

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        metrics = dict(metrics)
        epoch = int(metrics.pop("epoch", 0))
        self.log = self.log or MetricsLog(self.run_dir, self.attempt)
        if metrics:
            self.log.append((step or 0) + 1, epoch, metrics)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass  # config.yaml and run.json hold them
