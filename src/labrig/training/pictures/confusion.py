"""The confusion matrix of a classifier: how many samples of a class are taken for which."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix

from ...hdf5.read.datamodule import data_ranks
from ...record.files.atomic import write_file
from .samples import first_tensor, input_and_target

MAX_CLASSES = 200
MAX_NUMBERS = 20  # classes, up to which the numbers are written into the squares


class Confusion:
    """Counts pairs of label and prediction, batch by batch, on the device."""

    def __init__(self) -> None:
        self.n: Tensor | None = None  # (classes, classes): label, prediction

    def add(self, batch: Any, prediction: Any) -> None:
        """Adds a batch; one that is not of a classifier adds nothing."""
        _, label = input_and_target(batch)
        score = first_tensor(prediction)
        if score is None or label is None or not is_classification(score, label):
            return
        counted = (label >= 0) & (label < score.shape[1])  # a label such as -100 is ignored
        n = multiclass_confusion_matrix(
            score.argmax(1)[counted],
            label[counted],
            num_classes=score.shape[1],
            validate_args=False,
        )
        self.n = n if self.n is None else self.n + n

    def of_all_ranks(self, trainer: L.Trainer) -> ConfusionMatrix | None:
        """The sum over all ranks, which call this together; None when it is no classifier."""
        counts = None if self.n is None else self.n.cpu()
        of_ranks = [counts]
        if trainer.world_size > 1:
            of_ranks = [None] * trainer.world_size
            torch.distributed.all_gather_object(of_ranks, counts)
        # Of those that read the same samples one counts; and a rank may have had no batch.
        n_same = trainer.world_size // data_ranks(trainer)[1]
        known = [each for each in of_ranks[::n_same] if each is not None]
        if not known:
            return None
        return ConfusionMatrix(torch.stack(known).sum(0).tolist())


def is_classification(score: Tensor | None, label: Tensor | None) -> bool:
    """Whether scores (B, C, ...) and labels (B, ...) are those of a classifier."""
    if score is None or label is None or score.ndim < 2:
        return False
    return (
        score.is_floating_point()
        and label.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
        and label.shape == score.shape[:1] + score.shape[2:]
        and 2 <= score.shape[1] <= MAX_CLASSES
    )


@dataclass(frozen=True)
class ConfusionMatrix:
    """n[label][prediction]: samples."""

    n: list[list[int]]

    def save(self, folder: Path, step: int, class_names: list[str]) -> None:
        """Writes it as a picture and as a table."""
        names = [*class_names, *map(str, range(len(class_names), len(self.n)))][: len(self.n)]
        text = io.StringIO(newline="")
        table = csv.writer(text)
        table.writerow(["label", *names])
        for name, counts in zip(names, self.n, strict=True):
            table.writerow([name, *counts])
        write_file(confusion_file(folder, step, "csv"), text.getvalue())
        self._draw(confusion_file(folder, step, "png"), names)

    def _draw(self, file: Path, names: list[str]) -> None:
        from matplotlib.figure import Figure  # optional, and slow to import

        n_classes = len(names)
        side = min(12.0, 3.0 + 0.3 * n_classes)
        figure = Figure(figsize=(side, side), layout="constrained", dpi=120)
        axes = figure.subplots()
        # Each row by its own sum, so that rare classes are seen too.
        shares = [[n / max(sum(row), 1) for n in row] for row in self.n]
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set(xlabel="prediction", ylabel="label")
        if n_classes <= MAX_NUMBERS:
            axes.set_xticks(
                range(n_classes), names, rotation=90 if class_names_are_long(names) else 0
            )
            axes.set_yticks(range(n_classes), names)
            for label, row in enumerate(self.n):
                for prediction, n in enumerate(row):
                    color = "white" if shares[label][prediction] > 0.5 else "black"
                    axes.text(
                        prediction, label, str(n), ha="center", va="center", color=color, size=7
                    )
        figure.savefig(file)


def class_names_are_long(names: list[str]) -> bool:
    return max(map(len, names)) > 3


def confusion_file(folder: Path, step: int, ending: str) -> Path:
    return folder / f"confusion-{step:08d}.{ending}"
