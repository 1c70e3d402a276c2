"""Predicts on all ranks, and puts their parts together into one file."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import numpy as np
from omegaconf import DictConfig

from ...errors import Failed, LabError
from ...hdf5.file.atomic_file import temporary_directory_next_to
from ...hdf5.file.checksum import fingerprint
from ...hdf5.file.layout import Layout, read_layout
from ...hdf5.pack.writer import write_fields
from ...machine.ranks import discover, leave_group
from ..parts.trainer import plain_trainer
from .merge_predictions import ROW, merge_parts
from .prediction_writer import PredictionWriter

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
