"""The callback that saves what a network sees and says, at each validation.

callbacks:
  pictures: {_target_: labrig.callbacks.Pictures}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from torch import nn

from ..record.curves import metric_names, read_curve
from ..record.draw_curves import draw_curves, require_matplotlib
from .confusion import Confusion
from .picture_loggers import send_confusion, send_samples
from .samples import Samples, samples_of
from .steps import steps_done

MAX_STEPS = 40  # validations whose files are kept
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
        class_names: of a classifier, in the order of the labels; None: their numbers.
        sample_rate_hz: of waveforms; None: axes count samples.
    """

    def __init__(
        self,
        n: int = 8,
        class_names: list[str] | None = None,
        sample_rate_hz: float | None = None,
    ) -> None:
        require_matplotlib()
        self.n = n
        self.class_names = list(class_names or [])
        self.sample_rate_hz = sample_rate_hz
        self.hooks = ExitStack()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # `lab check` leaves nothing behind.
        self.is_saving = not trainer.fast_dev_run
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
        if self.samples is not None:
            self.samples.save(folder, step, self.class_names, self.sample_rate_hz)
            send_samples(trainer.loggers, folder, step)
        if confusion is not None:
            confusion.save(folder, step, self.class_names)
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

    The first and the newest stay.
    """
    files = sorted(folder.glob("*-*.*"))
    steps = sorted({file.stem.rpartition("-")[2] for file in files})
    if len(steps) <= MAX_STEPS:
        return
    deleted = set(steps[1:-1:2])
    for file in files:
        if file.stem.rpartition("-")[2] in deleted:
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
