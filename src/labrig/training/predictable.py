"""What `lab predict` needs of a task and of its data."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L

from ..errors import LabError
from ..hdf5.datamodule import H5DataModule
from ..hdf5.dataset import ALL


def make_predictable(task: L.LightningModule) -> None:
    """A task without a predict_step of its own predicts what `forward` gives for a batch's first field.

    Raises:
        LabError: it has neither.
    """
    if type(task).predict_step is not L.LightningModule.predict_step:
        return
    name = type(task).__name__
    if type(task).forward is L.LightningModule.forward:
        raise LabError(
            f"{name} has neither predict_step nor forward, so it predicts nothing. Add to it:\n"
            "  def predict_step(self, batch, batch_idx):\n"
            "      return self.model(batch[0])  # a row for each sample, or a dict of such\n"
            "Then: lab predict RUN --today"
        )

    def predict_step(batch: Any, batch_idx: int) -> Any:
        return task(batch[0] if isinstance(batch, list | tuple) else batch)

    task.predict_step = predict_step


def choose_split(data: L.LightningDataModule, split: str | None) -> str | None:
    """The split to predict, which `data` gives from now on; None when it has no splits by name.

    Raises:
        LabError: it has no splits, or nothing to predict at all.
    """
    name = type(data).__name__
    if isinstance(data, H5DataModule):
        has_own_loader = type(data).predict_dataloader is not H5DataModule.predict_dataloader
        if has_own_loader and split is None:
            return None
        data.predict_split = split or ("test" if data.layout.splits else ALL)
        return data.predict_split
    if split is not None:
        raise LabError(
            f"{name} has no splits by name, so split={split} means nothing. "
            "lab predict takes the samples of its predict_dataloader."
        )
    if type(data).predict_dataloader is L.LightningDataModule.predict_dataloader:
        raise LabError(
            f"{name} has no predict_dataloader. Add one, with the samples to predict in their order."
        )
    return None
