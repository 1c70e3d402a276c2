"""`lab predict`: writes what a run's checkpoint predicts for the samples of a split or a data file."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..config.overrides import SettingsParser
from ..config.recorded import read_recorded, with_changes
from ..config.resolve import load_variables, resolve
from ..machine.counted import counted
from ..project import Project
from ..record.atomic import sha256
from ..record.find import RUN_HELP, find_run
from ..record.outcome import final_weights
from ..record.ran import RanCode, imported_code
from ..record.roots import run_roots
from ..record.run import Run
from ..record.run_frozen import run_with_frozen_code
from ..record.seal import append_sealed
from ..record.verify import PREDICTIONS
from .code_to_run import add_choices, code_to_run, facts_of_code

MAY_CHANGE = ("trainer.", "data.")
ADVICE = "lab predict takes split=NAME, trainer.* and data.*"
SPLIT = "split="
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


def predict_command(project: Project, args: list[str]) -> int:
    options = parse_arguments(args)
    run = find_run(run_roots(project), options.run)
    code = code_to_run(run, project, options.today, "predicts")
    if code is None:
        words = [str(run.dir) if word == options.run else word for word in args]
        return run_with_frozen_code(run, project, ["predict", *words])
    ran = RanCode(imported_code(project, code))
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    config = resolve(with_changes(recorded, options.overrides, MAY_CHANGE, ADVICE))
    target = Path(options.to).absolute() if options.to else None
    checkpoint = options.checkpoint or final_weights(run.checkpoints).stem
    predictions = predict(config, run, checkpoint, options.split, target)
    if predictions is None:
        return 0
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": options.overrides,
        **asdict(predictions),
        "code": facts_of_code(run, code, ran),
    }
    append_sealed(run.dir / PREDICTIONS, row)
    print_predictions(run, predictions)
    return 0


def parse_arguments(args: list[str]) -> argparse.Namespace:
    """The options; `split` is taken out of the settings."""
    parser = SettingsParser(
        "lab predict",
        "Writes what RUN predicts for each sample, in their order, as one data file."
        " split=NAME chooses a split, split=all every sample; data.path=FILE other data.",
        RUN_HELP,
    )
    add_choices(parser)
    parser.add_argument(
        "--to", metavar="FILE", help=f"the file to write; otherwise in {DIRECTORY}/ of the run"
    )
    options = parser.read(args)
    splits = [word for word in options.overrides if word.startswith(SPLIT)]
    options.split = splits[-1].removeprefix(SPLIT) if splits else None
    options.overrides = [word for word in options.overrides if word not in splits]
    return options


def predict(
    config: DictConfig, run: Run, checkpoint: str, split: str | None, target: Path | None
) -> Predictions | None:
    """Writes the predictions for every sample once, on any number of processes.

    Args:
        config: the configuration of the run; trainer and data may differ.
        checkpoint: last, best or previous.
        split: of a data file; None: test, or what the data's own predict_dataloader gives.
        target: the file to write; None: in the directory of the run.

    Returns:
        None on other ranks than the first.

    Raises:
        LabError: no such checkpoint or split, or the task predicts nothing that can be written.
        DataFileError: a sample is missing or came twice, or the file cannot be written.
    """
    # They import torch, which takes seconds.
    from .build import build_data, build_task
    from .data_change import data_record
    from .load import load_weights
    from .predictable import choose_split, make_predictable
    from .settings import apply_settings, resolve_auto
    from .write_predictions import run_prediction

    config = resolve_auto(config, first_attempt={})
    apply_settings(config)
    data = build_data(config)
    split = choose_split(data, split)
    task = build_task(config)
    load_weights(task, run, checkpoint)
    make_predictable(task)
    fingerprint = data_record(data) or {}
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


def print_predictions(run: Run, predictions: Predictions) -> None:
    path = os.path.relpath(run.dir / predictions.path)
    fields = ", ".join(f"{name} {kind}" for name, kind in predictions.fields.items())
    print(f"run {run.id}, {predictions.checkpoint}.ckpt: {counted(predictions.n, 'sample')}")
    print(f"fields {fields}")
    print(f"look: lab data info {path}")
