"""The MLflow logger: sends new rows of the record from a thread, so that no step waits for it."""

from __future__ import annotations

import threading
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

from ...machine.network import is_reachable
from ...machine.secrets import hide_tokens
from ...record.read.run import Run
from .mlflow_run import SENT, MlflowPlace, MlflowRun, mlflow_place

EVERY_S = 10.0  # seconds between two uploads
LAST_UPLOAD_S = 30.0  # how long the end of a training waits for the last one


def build_mlflow_logger(config: DictConfig, run: Run) -> MlflowLogger:
    """The logger of `logger=mlflow`. All attempts of a run are one MLflow run."""
    settings: Any = OmegaConf.to_container(config.logger.mlflow)
    place = mlflow_place(settings, run.runs)
    mode = settings["mode"]
    if mode == "auto":
        is_there = not place.is_remote or is_reachable(place.uri)
        mode = "online" if is_there else "offline"
    if rank_zero_only.rank == 0:
        later = "" if mode == "online" else "; upload later: lab sync"
        print(f"MLflow: {mode}, run {run.id}{later}")
        # Rows follow that MLflow does not have.
        (run.dir / SENT).unlink(missing_ok=True)
    return MlflowLogger(run, place, is_offline=mode == "offline")


class MlflowLogger(Logger):
    """Sends what the record has and MLflow lacks, every 10 seconds, on the first rank.

    When MLflow fails, a line says so and the training continues; `lab sync` completes the run.
    """

    def __init__(self, run: Run, place: MlflowPlace, is_offline: bool) -> None:
        super().__init__()
        self.run = run
        self.place = place
        self.has_ended = threading.Event()
        self.status = "finished"
        self.uploads: threading.Thread | None = None
        self.is_offline = is_offline

    @property
    def name(self) -> str:
        return self.place.experiment

    @property
    def version(self) -> str:
        return self.run.id

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Starts the uploads; they read the row from the record."""
        if self.is_offline or self.uploads is not None:
            return
        self.has_ended.clear()
        self.uploads = threading.Thread(target=self._upload, name="mlflow", daemon=True)
        self.uploads.start()

    def _upload(self) -> None:
        try:
            mlflow_run = MlflowRun(self.run, self.place)
            while not self.has_ended.wait(EVERY_S):
                mlflow_run.upload_new_rows()
            mlflow_run.end(self.status)
        # MLflow, its server and its database raise errors of many kinds.
        except Exception as error:
            reason = hide_tokens(str(error).partition("\n")[0])
            print(f"MLflow: {reason}\nThe training continues; upload later: lab sync", flush=True)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Ends the uploads; waits for the last one, but not for ever."""
        if self.uploads is None:
            return
        self.status = "finished" if status == "success" else status
        self.has_ended.set()
        self.uploads.join(LAST_UPLOAD_S)
        self.uploads = None

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Sends nothing: the record has them."""
