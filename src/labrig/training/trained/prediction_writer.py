"""Writes what each process predicts into a part, a data file that says to which sample each row belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor

from ...errors import LabError
from ...hdf5.pack.collect import Collector
from ...hdf5.pack.writer import write_fields
from ...hdf5.read.loader import Loader
from .merge_predictions import ROW, START

ONE_TENSOR = "prediction"  # the field of a predict_step that returns a tensor


class PredictionWriter(BasePredictionWriter):
    """Collects the predictions of this process, and writes them to <directory>/part-<rank>.h5.

    `directory` is set on the first rank before the prediction begins, on a disk that all share; the
    others learn it from there.

    Args:
        run_id: whose weights predict; all ranks must have the same.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(write_interval="batch")
        self.run_id = run_id
        self.directory: Path | None = None
        self.n_samples: int | None = None  # of all ranks; None: the loader does not say
        self._places: Iterator[dict[str, np.ndarray]] | None = None
        self._n_here = 0
        self._collector: Collector | None = None
        self._open = ExitStack()

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Shares the directory, and learns which samples the batches will hold."""
        mine = (str(self.directory), self.run_id)
        directory, run_id = trainer.strategy.broadcast(mine)
        if run_id != self.run_id:
            raise LabError(
                f"the processes mean different runs, {run_id} and {self.run_id}. "
                "Name the run by its id."
            )
        self.directory = Path(directory)
        rank_directory = self.directory / f"rank-{trainer.global_rank}"
        rank_directory.mkdir()
        self._collector = self._open.enter_context(Collector(self.directory, rank_directory))
        loader = only_loader(trainer.predict_dataloaders)
        if isinstance(loader, Loader):
            self.n_samples = loader.order.n
            self._places = places_of(loader)
        elif hasattr(getattr(loader, "dataset", None), "__len__"):
            self.n_samples = len(loader.dataset)

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Any,
        batch_indices: list[int] | None,
        *_: Any,
    ) -> None:
        fields = as_fields(prediction)
        n_rows = len(next(iter(fields.values())))
        if self._places is not None:
            places = next(self._places)
        elif batch_indices:
            places = {ROW: np.asarray(batch_indices, np.int64)}
        else:
            places = {ROW: self._counted(n_rows, trainer.world_size)}
        n_samples = len(places[ROW])
        for name, values in fields.items():
            if len(values) != n_samples:
                raise LabError(
                    f"predict_step gave {len(values)} rows of {name!r} for {n_samples} samples; "
                    "expected one for each"
                )
        self._n_here += n_samples
        assert self._collector is not None  # since on_predict_start
        self._collector.add_batch("predict_step", places | fields)

    def _counted(self, n_rows: int, world_size: int) -> np.ndarray:
        """The next rows, for a loader that does not say which samples it gives."""
        if world_size > 1:
            raise LabError(
                "the predict_dataloader does not say which samples a batch holds, so several "
                "processes cannot put them into order. Predict on one: trainer.devices=1"
            )
        return np.arange(self._n_here, self._n_here + n_rows)

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._open.close()
        if self._n_here and self._collector is not None and self.directory is not None:
            part = self.directory / f"part-{trainer.global_rank}.h5"
            write_fields(part, self._collector.fields(), {}, provenance={})
        trainer.strategy.barrier("predictions")

    def on_exception(self, *_: Any) -> None:
        self._open.close()


def only_loader(loaders: Any) -> Any:
    """The loader of a prediction."""
    if not isinstance(loaders, list | tuple | dict):
        return loaders
    values = list(loaders.values()) if isinstance(loaders, dict) else list(loaders)
    if len(values) != 1:
        raise LabError(
            f"predict_dataloader gave {len(values)} loaders, expected one: a file of predictions "
            "holds the samples of one"
        )
    return values[0]


def places_of(loader: Loader) -> Iterator[dict[str, np.ndarray]]:
    """The rows in the data file of the samples of each batch of this rank; of windows where they begin."""
    for batch in loader.order.batches(epoch=0):
        if loader.dataset.windows:
            yield dict(zip((ROW, START), loader.dataset.windows.places(batch), strict=True))
        else:
            yield {ROW: np.asarray(loader.dataset.rows[batch.indices])}


def as_fields(prediction: Any) -> dict[str, np.ndarray | list[np.ndarray]]:
    """What predict_step returned, as arrays by their field."""
    fields = prediction if isinstance(prediction, Mapping) else {ONE_TENSOR: prediction}
    for name in fields.keys() & {ROW, START}:
        raise LabError(
            f"predict_step gave the field {name!r}, which is ours: where each sample lies in the data file. "
            "Rename it."
        )
    if not fields:
        raise LabError("predict_step gave an empty dict; expected a tensor for each field")
    return {name: as_array(name, values) for name, values in fields.items()}


def as_array(name: str, values: Any) -> np.ndarray | list[np.ndarray]:
    """An array (B, ...) of a batch's values, or a list of B arrays."""
    if isinstance(values, list | tuple) and len(values):
        return [np.atleast_1d(to_numpy(value)) for value in values]
    if isinstance(values, Tensor | np.ndarray) and values.ndim:
        return to_numpy(values)
    what = "a single number" if isinstance(values, Tensor) else type(values).__name__
    raise LabError(
        f"predict_step gave {what} as {name!r}; expected a tensor with a row for each sample, or a "
        "list of tensors where they vary in length. Several fields: a dict of them"
    )


def to_numpy(values: Any) -> np.ndarray:
    """On the CPU; bfloat16, which NumPy lacks, becomes float32."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    if values.dtype == torch.bfloat16:
        values = values.float()
    return values.detach().cpu().numpy()
