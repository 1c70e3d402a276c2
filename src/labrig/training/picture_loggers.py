"""Sends saved pictures to the trackers. MLflow takes the whole directory at the end."""

from __future__ import annotations

import csv
from pathlib import Path

from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.logger import Logger

from .confusion import confusion_file
from .samples import samples_file


def send_samples(loggers: list[Logger], folder: Path, step: int) -> None:
    """The picture; where there is none, the table."""
    picture = samples_file(folder, step, "png")
    if picture.exists():
        send_picture(loggers, "val/samples", picture, step)
    else:
        send_table(loggers, "val/samples", samples_file(folder, step, "csv"), step)


def send_confusion(loggers: list[Logger], folder: Path, step: int) -> None:
    send_picture(loggers, "val/confusion", confusion_file(folder, step, "png"), step)


def send_picture(loggers: list[Logger], name: str, file: Path, step: int) -> None:
    """`step`: optimizer steps done; the trackers count from 0."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_image(name, [str(file)], step=step - 1)
        elif isinstance(logger, TensorBoardLogger):
            logger.experiment.add_image(name, read_pixels(file), step - 1, dataformats="HWC")


def read_pixels(file: Path) -> object:
    """(H, W, 3), of matplotlib's type."""
    from matplotlib.image import imread  # optional, and slow to import

    return imread(file)[:, :, :3]


def send_table(loggers: list[Logger], name: str, file: Path, step: int) -> None:
    with open(file, encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_table(name, columns=header, data=rows, step=step - 1)
        elif isinstance(logger, TensorBoardLogger):
            lines = [header, ["---"] * len(header), *rows]
            text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
            logger.experiment.add_text(name, text, step - 1)
