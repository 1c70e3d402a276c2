"""The MLflow run of a run: made once, found by a tag, filled from metrics.jsonl.

What MLflow lacks is read from the record. So a run that had no network, or whose server went away,
is completed later by the same function.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...record.files.json_lines import read_lines
from ...record.files.metrics_file import ROW_KEYS, read_metrics
from ...record.read.run import Run
from ...record.read.settings import flatten

TAG = "lab.run_id"
N_ROWS = "lab.n_rows"  # a tag: how many rows of metrics.jsonl and speed.jsonl MLflow has
FILES = ("metrics.jsonl", "speed.jsonl")
MAX_METRICS = 1000  # of one request
MAX_PARAMETERS = 100
MAX_LENGTH = 500  # characters of a parameter
NOT_ALLOWED = re.compile(r"[^\w.:/ -]")  # in MLflow's names
SENT = "mlflow.synced"  # in the run directory, once MLflow has everything
STATUSES = {"finished": "FINISHED", "interrupted": "KILLED"}
# Without them MLflow would try for minutes.
LIMITS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


@dataclass(frozen=True)
class MlflowPlace:
    """Where MLflow keeps runs."""

    uri: str  # http(s)://..., sqlite:///FILE or file:DIRECTORY
    experiment: str
    artifacts: str | None  # directory of a new experiment's files; None: the server knows

    @property
    def is_remote(self) -> bool:
        return self.uri.startswith("http")


def mlflow_place(settings: dict[str, Any], runs: Path) -> MlflowPlace:
    """The place that `logger.mlflow` names.

    Args:
        settings: that section.
        runs: the root of all runs, where MLflow's own files lie without a server.
    """
    uri = settings["tracking_uri"] or os.environ.get("MLFLOW_TRACKING_URI")
    uri = uri or f"sqlite:///{runs.absolute()}/mlflow.db"
    artifacts = None if uri.startswith("http") else (runs.absolute() / "mlflow").as_uri()
    return MlflowPlace(uri, settings["experiment"], artifacts)


def make_database(uri: str) -> None:
    """Makes MLflow's SQLite file under another name and renames it, so that a kill leaves no half one."""
    file = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or file.exists():
        return
    import sqlite3

    from mlflow.tracking import MlflowClient

    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=file.parent) as folder:
        made = Path(folder) / file.name
        MlflowClient(f"sqlite:///{made}").search_experiments()  # makes the tables
        with closing(sqlite3.connect(made)) as database:
            database.execute("pragma wal_checkpoint(truncate)")
        with suppress(FileExistsError):  # another run was first
            os.link(made, file)


class MlflowRun:
    """One run in MLflow."""

    def __init__(self, run: Run, place: MlflowPlace) -> None:
        for name, value in LIMITS.items():
            os.environ.setdefault(name, value)
        # MLflow prefers databases, and reads files only on request.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.tracking import MlflowClient

        make_database(place.uri)
        self.run = run
        self.client = MlflowClient(place.uri)
        experiment_id = self._experiment(place)
        mlflow_runs = self.client.search_runs([experiment_id], f"tags.`{TAG}` = '{run.id}'")
        self.mlflow_id = mlflow_runs[0].info.run_id if mlflow_runs else self._create(experiment_id)
        tags = self.client.get_run(self.mlflow_id).data.tags
        counts = [int(word) for word in tags.get(N_ROWS, "0 0").split()]
        self.n_rows = dict(zip(FILES, counts, strict=True))

    def _experiment(self, place: MlflowPlace) -> str:
        """The id of the experiment, which is made if it is missing."""
        experiment = self.client.get_experiment_by_name(place.experiment)
        if experiment is not None:
            return experiment.experiment_id
        return self.client.create_experiment(place.experiment, artifact_location=place.artifacts)

    def _create(self, experiment_id: str) -> str:
        from mlflow.entities import Param

        code = self.run.record["code"]
        tags = {
            TAG: self.run.id,
            "mlflow.runName": f"{self.run.trial} {self.run.id}",
            "mlflow.user": self.run.record["who"] or "",
            "mlflow.source.git.commit": code.get("commit") or "",
            "lab.tree": code.get("tree") or "",
        }
        mlflow_id = self.client.create_run(experiment_id, tags=tags).info.run_id
        parameters = [
            Param(NOT_ALLOWED.sub("_", key), str(value)[:MAX_LENGTH])
            for key, value in flatten(self.run.config).items()
        ]
        for begin in range(0, len(parameters), MAX_PARAMETERS):
            self.client.log_batch(mlflow_id, params=parameters[begin : begin + MAX_PARAMETERS])
        return mlflow_id

    def upload_new_rows(self) -> None:
        """Sends the rows that MLflow does not have yet."""
        metrics = []
        newest = {
            row_key(row): row["attempt"]
            for name in FILES
            for row in read_metrics(self.run.dir, name)
        }
        for name in FILES:
            rows = read_lines(self.run.dir / name)
            for row in rows[self.n_rows[name] :]:
                # A killed attempt wrote rows that the next one wrote again.
                if newest.get(row_key(row)) == row.get("attempt"):
                    metrics.extend(metrics_of(row))
            self.n_rows[name] = len(rows)
        if not metrics:
            return
        for begin in range(0, len(metrics), MAX_METRICS):
            self.client.log_batch(self.mlflow_id, metrics=metrics[begin : begin + MAX_METRICS])
        counts = " ".join(str(n) for n in self.n_rows.values())
        self.client.set_tag(self.mlflow_id, N_ROWS, counts)

    def end(self, status: str) -> None:
        """Sends all that is missing, the pictures too, and how the run ended.

        Args:
            status: that of the run: finished, failed, interrupted, ...
        """
        self.upload_new_rows()
        pictures = self.run.dir / "pictures"
        if pictures.is_dir():
            self.client.log_artifacts(self.mlflow_id, str(pictures), "pictures")
        self.client.set_terminated(self.mlflow_id, STATUSES.get(status, "FAILED"))
        (self.run.dir / SENT).write_text(f"{self.mlflow_id}\n", encoding="utf-8")


def row_key(row: dict[str, Any]) -> tuple[int | None, frozenset[str]]:
    """What rows of one step and the same metrics share."""
    return row.get("step"), frozenset(row)


def metrics_of(row: dict[str, Any]) -> Iterator[Any]:
    """MLflow's metrics of a row of metrics.jsonl or speed.jsonl."""
    from mlflow.entities import Metric

    time_ms = int(row.get("time_unix_s", 0) * 1000)
    for name, value in row.items():
        if name not in ROW_KEYS:
            # Not a number and infinity are text in JSON.
            yield Metric(NOT_ALLOWED.sub("_", name), float(value), time_ms, row.get("step", 0))
