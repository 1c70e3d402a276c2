"""Predicts on all ranks, each into a part that says to which sample a row belongs, and joins the parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from omegaconf import DictConfig
from torch import Tensor

from ...errors import Failed, LabError
from ...hdf5.file.atomic_file import temporary_directory_next_to
from ...hdf5.file.checksum import fingerprint
from ...hdf5.file.layout import Layout, read_layout
from ...hdf5.pack.collect import Collector
from ...hdf5.pack.writer import write_fields
from ...hdf5.read.loader import Loader
from ...machine.ranks import discover, leave_group
from ..parts.trainer import plain_trainer
from .predictions import ROW, START, merge_parts

WHOLE = "predict"  # the split of a file whose data had none


@dataclass(frozen=True)
class Written:
    """A file of predictions."""

    sha256: str
    n: int  # samples
    fields: dict[str, str]  # type and shape of a sample's value


def run_prediction(
    config: DictConfig,
    data: L.LightningDataModule,
    task: L.LightningModule,
    target: Path,
    split: str | None,
    provenance: dict[str, Any],
) -> Written | None:
    """Predicts every sample of `data.predict_dataloader`, and writes `target`.

    Args:
        config: a configuration without `auto`.
        split: what the samples are called in the file.
        provenance: attributes of the file; `run` is the id whose weights `task` has.

    Returns:
        None on other ranks than the first.
    """
    refuse_limits(config.trainer)
    writer = PredictionWriter(provenance["run"])
    trainer = plain_trainer(
        config,
        data,
        task,
        logger=False,
        enable_checkpointing=False,
        callbacks=[writer],
        num_nodes=discover().n_nodes,
    )
    with ExitStack() as stack:
        if trainer.is_global_zero:
            writer.directory = stack.enter_context(temporary_directory_next_to(target))
        trainer.predict(task, datamodule=data, return_predictions=False)
        leave_group()
        if not trainer.is_global_zero:
            return None
        assert writer.directory is not None  # this is the first rank
        parts = [read_layout(path) for path in sorted(writer.directory.glob("part-*.h5"))]
        if not parts:
            raise Failed("there were no samples to predict. Look at the data: lab data info NAME")
        merged = merge_parts(parts, writer.directory)
        rows: Any = merged[ROW]
        refuse_missing(rows, writer.n_samples)
        splits = {split or WHOLE: np.arange(len(rows))}
        write_fields(target, merged, splits, provenance=provenance)
    layout = read_layout(target)
    return Written(fingerprint(layout)["sha256"], layout.n_samples, kinds_of(layout))


def refuse_limits(trainer: DictConfig) -> None:
    """Refuses arguments of the Trainer with which samples would be left out.

    Args:
        trainer: the section.
    """
    limit = trainer.get("limit_predict_batches")
    has_limit = limit is not None and not (isinstance(limit, float) and limit == 1.0)
    for is_set, undone in (
        (has_limit, "trainer.limit_predict_batches=null"),
        (trainer.get("fast_dev_run"), "trainer.fast_dev_run=false"),
    ):
        if is_set:
            raise LabError(
                f"a file of predictions holds every sample. Set {undone}; for a part: split=NAME"
            )


def refuse_missing(rows: np.ndarray, n_samples: int | None) -> None:
    """Makes sure that every sample is there."""
    if n_samples is not None and len(rows) != n_samples:
        raise Failed(
            f"only {len(rows)} of {n_samples} samples were predicted. Nothing was written. "
            "Return a row for each sample from predict_step."
        )


def kinds_of(layout: Layout) -> dict[str, str]:
    """Type and shape of a sample's value in each field."""
    kinds = {}
    for name, array in layout.fields.items():
        shape = "ragged" if layout.is_ragged(name) else "x".join(map(str, array.shape[1:]))
        kinds[name] = f"{array.dtype} {shape}".strip()
    return kinds


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
