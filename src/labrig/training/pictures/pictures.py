"""The callback that saves what a network sees and says, at each validation.

callbacks:
  pictures: {_target_: labrig.callbacks.Pictures}
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.logger import Logger
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_confusion_matrix

from ...errors import require_package
from ...hdf5.read.datamodule import H5DataModule, data_ranks
from ...record.files.atomic import write_file
from ...record.list.curves import draw_curves, metric_names, read_curve
from ..exact.steps import steps_done
from .samples import Samples, first_tensor, input_and_target, samples_file, samples_of

# Sends saved pictures to the trackers. MLflow takes the whole directory at the end.


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


MAX_STEPS = 40  # validations whose files are kept
# The names that samples_file and confusion_file give
OWN_FILE = re.compile(r"(?:samples|confusion)-(?P<step>\d{8,})\.(?:csv|png)")
PREDICTION = "prediction"  # what validation_step may return it as


class Pictures(L.Callback):
    """Saves the first samples of the validation data with their predictions, to pictures/ of the
    run and to its loggers: images, waveforms with spectrograms, or a table, as the data ask.

    For a classifier it also saves the confusion matrix over the whole split; at the end of the run
    the curves. Only the first rank writes.

    The prediction is what `validation_step` returns as "prediction", else the output of `task.model`
    (or of the task itself). Of more than 40 validations every second is deleted again.

    Args:
        n: samples, >= 1, at most a batch.
        class_names: of a classifier, in the order of the labels; None: those of the data file.
        sample_rate_hz: of waveforms; None: axes count samples.
    """

    def __init__(
        self,
        n: int = 8,
        class_names: list[str] | None = None,
        sample_rate_hz: float | None = None,
    ) -> None:
        require_package("matplotlib", "a picture")
        self.n = n
        self.class_names = class_names
        self.sample_rate_hz = sample_rate_hz
        self.hooks = ExitStack()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # `lab check` leaves nothing behind, and a sanity check shows nothing new.
        self.is_saving = not (trainer.fast_dev_run or trainer.sanity_checking)
        self.output: Any = None
        self.samples: Samples | None = None
        self.confusion = Confusion()
        handle = network_of(pl_module).register_forward_hook(self._remember)
        self.hooks.callback(handle.remove)

    def _remember(self, network: nn.Module, inputs: Any, output: Any) -> None:
        self.output = output

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx:
            return
        prediction = self.output
        if isinstance(outputs, Mapping) and PREDICTION in outputs:
            prediction = outputs[PREDICTION]
        self.confusion.add(batch, prediction)
        if batch_idx == 0 and trainer.is_global_zero:
            self.samples = samples_of(batch, prediction, self.n)
        self.output = None

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.hooks.close()
        # All ranks together.
        confusion = self.confusion.of_all_ranks(trainer)
        if not trainer.is_global_zero or not self.is_saving:
            return
        folder = self._folder(trainer)
        step = steps_done(trainer)
        data = getattr(trainer, "datamodule", None)
        names = self.class_names or []
        if self.class_names is None and isinstance(data, H5DataModule) and "y" in data.fields:
            names = data.layout.class_names
        if self.samples is not None:
            self.samples.save(folder, step, names, self.sample_rate_hz)
            send_samples(trainer.loggers, folder, step)
        if confusion is not None:
            confusion.save(folder, step, names)
            send_confusion(trainer.loggers, folder, step)
        thin_out(folder)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero and not trainer.fast_dev_run:
            draw_all_curves(Path(trainer.default_root_dir), self._folder(trainer) / "curves.png")

    def on_exception(self, *_: Any) -> None:
        self.hooks.close()

    def _folder(self, trainer: L.Trainer) -> Path:
        folder = Path(trainer.default_root_dir) / "pictures"
        folder.mkdir(exist_ok=True)
        return folder


def network_of(task: L.LightningModule) -> nn.Module:
    model = getattr(task, "model", None)
    return model if isinstance(model, nn.Module) else task


def thin_out(folder: Path) -> None:
    """Deletes every second validation, when the directory holds those of more than MAX_STEPS.

    The first and the newest stay, and every file that the task itself has put there.
    """
    files = {file: match for file in folder.iterdir() if (match := OWN_FILE.fullmatch(file.name))}
    steps = sorted({int(match["step"]) for match in files.values()})
    if len(steps) <= MAX_STEPS:
        return
    deleted = set(steps[1:-1:2])
    for file, match in files.items():
        if int(match["step"]) in deleted:
            file.unlink()


def draw_all_curves(run_dir: Path, file: Path) -> None:
    """Draws every metric of a run; train/loss and val/loss are curves of one chart."""
    charts: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name in metric_names(run_dir):
        curve = read_curve(run_dir, name)
        # One point, such as that of test/loss, is no curve.
        if len(curve) > 1:
            charts.setdefault(name.rpartition("/")[2], {})[name] = curve
    if charts:
        draw_curves(file, "step", charts)
