"""What a run's checkpoint predicts for the samples of a split or a data file, in a data file."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...config.recorded import read_recorded, with_changes
from ...config.resolve import load_variables, resolve
from ...machine.counted import counted
from ...project import Project
from ...record.files.atomic import sha256
from ...record.files.manifest import append_listed
from ...record.files.schema import Code
from ...record.read.run import Run
from ...record.read.status import weights_of_numbers
from ...record.verify.command import PREDICTIONS
from ...record.write.ran import RanCode, imported_code, places_in
from ..parts.kept_data import print_replaced
from .code_to_run import facts_of_code, take_data

MAY_CHANGE = ("trainer.", "data.")
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
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    if options.data:
        take_data(recorded, project, options.data)
    config = resolve(with_changes(recorded, settings, MAY_CHANGE, ADVICE))
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
    from ..parts.build import build_data, build_task
    from ..parts.data_change import data_record
    from ..parts.settings import apply_settings, resolve_auto
    from .load import load_statistics, load_weights
    from .predictable import choose_split, make_predictable
    from .same_meaning import require_same_meaning
    from .write_predictions import run_prediction

    config = resolve_auto(config, first_attempt={})
    apply_settings(config)
    data = build_data(config)
    split = choose_split(data, split)
    task = build_task(config)
    load_weights(task, run, checkpoint)
    load_statistics(data, run, checkpoint)
    make_predictable(task)
    fingerprint = data_record(data) or {}
    print_replaced(run, fingerprint)
    require_same_meaning(project, run, data)
    name = f"{checkpoint}-{Path(fingerprint.get('path', 'data')).stem}-{split or 'predict'}.h5"
    target = target or run.dir / DIRECTORY / name.replace("/", "+")
    file = run.checkpoints / f"{checkpoint}.ckpt"
    provenance = {
        "run": run.id,
        "checkpoint": checkpoint,
        "checkpoint_sha256": sha256(file),
        "data": str(fingerprint.get("path")),
        "data_sha256": str(fingerprint.get("sha256")),
    }
    written = run_prediction(config, data, task, target, split, provenance)
    if written is None:
        return None
    return Predictions(
        path=place_of(target, run),
        content_sha256=written.sha256,
        n=written.n,
        fields=written.fields,
        checkpoint=checkpoint,
        checkpoint_sha256=provenance["checkpoint_sha256"],
        split=split,
        data=dict(fingerprint),
    )


def place_of(target: Path, run: Run) -> str:
    """A path from the directory of the run, where the file lies in it; else the whole path."""
    return str(target.relative_to(run.dir) if target.is_relative_to(run.dir) else target)
