"""The loggers of a run: metrics.jsonl always, and those that `logger=` names next to it."""

from __future__ import annotations

import importlib.util
from typing import Any

from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError
from ..record.run import Run
from .csv_logger import CsvFile
from .mlflow_logger import build_mlflow_logger
from .run_logger import RunFiles
from .tensorboard_logger import TensorBoardOfRun
from .wandb_logger import build_wandb_logger


def build_loggers(config: DictConfig, run: Run, attempt: int) -> list[Logger]:
    """The logger of metrics.jsonl, then those that `logger=` names.

    Raises:
        LabError: the package of a logger is not installed.
    """
    for package in config.logger:
        if importlib.util.find_spec(package) is None:
            raise LabError(
                f"logger={package} needs the package {package}: make add PACKAGE={package}"
            )
    loggers: list[Logger] = [RunFiles(run.dir, attempt)]
    # These two read what the first has written.
    if "csv" in config.logger:
        loggers.append(CsvFile(run.dir, attempt))
    if "mlflow" in config.logger:
        loggers.append(build_mlflow_logger(config, run))
    if "tensorboard" in config.logger:
        settings: Any = OmegaConf.to_container(config.logger.tensorboard)
        loggers.append(TensorBoardOfRun(run, attempt, **settings))
    if "wandb" in config.logger:
        loggers.append(build_wandb_logger(config, run, attempt))
    return loggers
