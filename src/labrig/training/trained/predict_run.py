"""What a run's checkpoint predicts for the samples of a split or a data file, in a data file."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...machine.counted import counted
from ...project import Project
from ...record.files.atomic import sha256
from ...record.files.manifest import append_listed
from ...record.files.schema import Code
from ...record.read.run import Run
from ...record.read.status import weights_of_numbers
from ...record.verify.command import PREDICTIONS
from ...record.write.ran import RanCode, imported_code, places_in
from .code_to_run import config_to_run, facts_of_code

ADVICE = "lab predict takes data=NAME, split=NAME, trainer.* and data.*"
DIRECTORY = "predictions"  # in the directory of a run


@dataclass(frozen=True)
class Predictions:
    """A file of predictions, as predictions.jsonl of its run holds it."""

    path: str  # from the directory of the run, or absolute
    content_sha256: str  # of the samples, as `lab data verify` prints it
    n: int  # samples
    fields: dict[str, str]  # type and shape of a sample's value
    checkpoint: str
    checkpoint_sha256: str
    split: str | None  # None: what the predict_dataloader of the data gives
    data: dict[str, Any]  # the data that were read, by their content


def predict_run(
    project: Project,
    run: Run,
    code: Code,
    options: argparse.Namespace,
    split: str | None,
    settings: list[str],
    target: Path | None = None,
) -> dict[str, Any] | None:
    """Predicts in this process, and records what was written.

    Args:
        code: of the run, which this process runs.
        options: of which `checkpoint` and `data` are read.
        settings: of trainer and data, which differ from those of the run.
        target: the data file to write; None: in the directory of the run.

    Returns:
        The row of the record; None on other ranks than the first.
    """
    imported = imported_code(project, code)
    config = config_to_run(project, run, options.data, settings, ADVICE)
    ran = RanCode(imported, elsewhere=places_in(config.paths))
    checkpoint = options.checkpoint or weights_of_numbers(run.dir, run.checkpoints).stem
    predictions = predict(project, config, run, checkpoint, split, target)
    if predictions is None:
        return None
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": settings if options.data is None else [f"data={options.data}", *settings],
        **asdict(predictions),
        "code": facts_of_code(run, code, ran),
    }
    append_listed(run.dir, PREDICTIONS, row)
    fields = ", ".join(f"{name} {kind}" for name, kind in predictions.fields.items())
    print(f"run {run.id}, {checkpoint}.ckpt: {counted(predictions.n, 'sample')}, fields {fields}")
    return row


def predict(
    project: Project,
    config: DictConfig,
    run: Run,
    checkpoint: str,
    split: str | None,
    target: Path | None,
) -> Predictions | None:
    """Writes the predictions for every sample once, on any number of processes.

    Args:
        config: the configuration of the run; trainer and data may differ.
        checkpoint: last, best or previous.
        split: of a data file; None: test, or what the data's own predict_dataloader gives.
        target: the file to write; None: in the directory of the run.

    Returns:
        None on other ranks than the first.
    """
    # They import torch, which takes seconds.
    from .predictable import choose_split, make_predictable, rebuild
    from .write_predictions import run_prediction

    built = rebuild(project, config, run, checkpoint, choose_split, split)
    make_predictable(built.task)
    content = built.content
    name = f"{checkpoint}-{Path(content.get('path', 'data')).stem}-{built.split or 'predict'}.h5"
    target = target or run.dir / DIRECTORY / name.replace("/", "+")
    file = run.checkpoints / f"{checkpoint}.ckpt"
    provenance = {
        "run": run.id,
        "checkpoint": checkpoint,
        "checkpoint_sha256": sha256(file),
        "data": str(content.get("path")),
        "data_sha256": str(content.get("sha256")),
    }
    written = run_prediction(built.config, built.data, built.task, target, built.split, provenance)
    if written is None:
        return None
    return Predictions(
        path=place_of(target, run),
        content_sha256=written.sha256,
        n=written.n,
        fields=written.fields,
        checkpoint=checkpoint,
        checkpoint_sha256=provenance["checkpoint_sha256"],
        split=built.split,
        data=content,
    )


def place_of(target: Path, run: Run) -> str:
    """A path from the directory of the run, where the file lies in it; else the whole path."""
    return str(target.relative_to(run.dir) if target.is_relative_to(run.dir) else target)
