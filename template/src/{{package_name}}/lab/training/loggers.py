# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The loggers of a run: metrics.jsonl always, TensorBoard and W&B next to it."""

from __future__ import annotations

import importlib.util

from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.loggers.logger import Logger
from omegaconf import DictConfig, OmegaConf

from ..errors import LabError
from ..record.run import Run
from .run_logger import RunFiles
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
    if "tensorboard" in config.logger:
        settings = OmegaConf.to_container(config.logger.tensorboard)
        loggers.append(TensorBoardLogger(run.dir, name="tensorboard", version="", **settings))
    if "wandb" in config.logger:
        loggers.append(build_wandb_logger(config, run))
    return loggers
