"""The loggers of a run: metrics.jsonl always, and those that `logger=` names next to it."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

from ...config.compose import check_packages
from ...errors import LabError
from ...providers import provided
from ...record.files.atomic import write_file
from ...record.files.metrics_file import MetricsLog, read_metrics
from ...record.read.run import Run

# The logger that writes metrics.jsonl of a run.


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


# The CSV logger: metrics.jsonl as a table, metrics.csv next to it.

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


# The TensorBoard logger: the curves of all attempts of a run are one.


class TensorBoardOfRun(TensorBoardLogger):
    """Writes to runs/<trial>/<id>/tensorboard.

    When an attempt resumes, it has TensorBoard forget the points that a killed one wrote after its
    last checkpoint.
    """

    def __init__(self, run: Run, attempt: int, **settings: Any) -> None:
        super().__init__(run.dir, name="tensorboard", version="", **settings)
        self.begins_again = attempt > 1

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if self.begins_again:
            self.begins_again = False
            forget_from(self, step or 0)
        super().log_metrics(metrics, step)


def forget_from(logger: TensorBoardLogger, step: int) -> None:
    """What `SummaryWriter(purge_step=step)` writes; the step is known only now."""
    from tensorboard.compat.proto import event_pb2

    protobuf: Any = event_pb2  # whose classes are made at run time
    status = protobuf.SessionLog(status=protobuf.SessionLog.START)
    writer = logger.experiment.file_writer
    writer.add_event(protobuf.Event(step=step, file_version="brain.Event:2"))
    writer.add_event(protobuf.Event(step=step, session_log=status))


def build_loggers(config: DictConfig, run: Run, attempt: int) -> list[Logger]:
    """The logger of metrics.jsonl, then those that `logger=` names."""
    check_packages(config)
    loggers: list[Logger] = [RunFiles(run.dir, attempt)]
    # These two read what the first has written.
    if "csv" in config.logger:
        loggers.append(CsvFile(run.dir, attempt))
    if "mlflow" in config.logger:
        loggers.append(of_tracker("mlflow", config, run, attempt))
    if "tensorboard" in config.logger:
        settings: Any = OmegaConf.to_container(config.logger.tensorboard)
        loggers.append(TensorBoardOfRun(run, attempt, **settings))
    if "wandb" in config.logger:
        loggers.append(of_tracker("wandb", config, run, attempt))
    return loggers


def of_tracker(name: str, config: DictConfig, run: Run, attempt: int) -> Logger:
    """The logger of a tracker."""
    build = provided(f"{name}_logger")
    if build is None:
        raise LabError(
            f"logger={name} needs labrig.training.loggers. Install all of labrig, or leave it out"
        )
    return build(config, run, attempt) if name == "wandb" else build(config, run)
