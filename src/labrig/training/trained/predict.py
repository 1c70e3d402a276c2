"""`lab predict`: writes what a run's checkpoint predicts for the samples of a split or a data file."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...config.overrides import SettingsParser
from ...config.recorded import read_recorded, with_changes
from ...config.resolve import load_variables, resolve
from ...errors import LabError
from ...machine.counted import counted
from ...machine.own_output import refuse_to_overwrite
from ...project import Project
from ...record.files.atomic import sha256
from ...record.files.manifest import append_listed
from ...record.list.find import RUN_HELP, find_run
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ...record.read.status import weights_of_numbers
from ...record.reproduce.run_frozen import run_with_frozen_code
from ...record.verify.command import PREDICTIONS
from ...record.write.claim import in_use
from ...record.write.ran import RanCode, imported_code, places_in
from ..parts.kept_data import print_replaced, with_kept_override
from .code_to_run import add_choices, code_to_run, facts_of_code, take_split
from .predict_folds import predict_folds

MAY_CHANGE = ("trainer.", "data.")
ADVICE = "lab predict takes split=NAME, trainer.* and data.*"
FOLDS = "folds"  # the split: the held-out samples of all folds
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
    if options.to:
        refuse_other_format(options.to)
        refuse_to_overwrite(Path(options.to), is_prediction)
    run = find_run(run_roots(project), options.run)
    with in_use(run.dir):
        if options.split == FOLDS:
            predict_folds(project, run, options, target_of_folds(run, options))
            return 0
        return predict_run(project, run, options, args)


def refuse_other_format(file: str) -> None:
    """Refuses the ending of another format: what is written is always HDF5.

    Raises:
        LabError: it has one, such as .csv.
    """
    if Path(file).suffix.lower() not in ("", ".h5", ".hdf5"):
        name = Path(file).with_suffix(".h5")
        raise LabError(
            f"{file} is no name of an HDF5 file, which predictions are written as. Type: --to {name}   "
            "lab docs training shows how to read it"
        )


def target_of_folds(run: Run, options: argparse.Namespace) -> Path:
    """The file for the predictions of all folds, in a directory that is there."""
    target = Path(options.to).absolute() if options.to else run.dir / DIRECTORY / "folds.h5"
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def predict_run(project: Project, run: Run, options: argparse.Namespace, args: list[str]) -> int:
    """Predicts with the code of the run, which may be another process, and records what was written."""
    overrides = with_kept_override(options.overrides, run, project)
    code = code_to_run(run, project, options.today, "predicts")
    if code is None:
        words = [str(run.dir) if word == options.run else word for word in args]
        words += overrides[len(options.overrides) :]
        return run_with_frozen_code(run, project, ["predict", *words])
    imported = imported_code(project, code)
    load_variables(project)
    recorded = read_recorded(run.dir / "config.yaml")
    config = resolve(with_changes(recorded, overrides, MAY_CHANGE, ADVICE))
    ran = RanCode(imported, elsewhere=places_in(config.paths))
    target = Path(options.to).absolute() if options.to else None
    checkpoint = options.checkpoint or weights_of_numbers(run.dir, run.checkpoints).stem
    predictions = predict(project, config, run, checkpoint, options.split, target)
    if predictions is None:
        return 0
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": overrides,
        **asdict(predictions),
        "code": facts_of_code(run, code, ran),
    }
    append_listed(run.dir, PREDICTIONS, row)
    print_predictions(run, predictions)
    return 0


def is_prediction(content: bytes) -> bool:
    """Whether a file is one of predictions: an HDF5 file that names its weights."""
    return content.startswith(b"\x89HDF") and b"checkpoint_sha256" in content


def parse_arguments(args: list[str]) -> argparse.Namespace:
    """The options; `split` is taken out of the settings."""
    parser = SettingsParser(
        "lab predict",
        "Writes what RUN predicts for each sample, in their order, as one data file."
        " split=NAME chooses a split, split=all every sample; data.path=FILE other data;"
        " split=folds joins the held-out samples of all folds, each from the run that held it out.",
        RUN_HELP,
    )
    add_choices(parser)
    parser.add_argument(
        "--to", metavar="FILE", help=f"the file to write; otherwise in {DIRECTORY}/ of the run"
    )
    options = parser.read(args)
    options.split, options.overrides = take_split(options.overrides)
    return options


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

    Raises:
        LabError: no such checkpoint or split, the task predicts nothing that can be written, or the
            data mean something else than those of the run.
        DataFileError: a sample is missing or came twice, or the file cannot be written.
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


def print_predictions(run: Run, predictions: Predictions) -> None:
    path = os.path.relpath(run.dir / predictions.path)
    fields = ", ".join(f"{name} {kind}" for name, kind in predictions.fields.items())
    print(f"run {run.id}, {predictions.checkpoint}.ckpt: {counted(predictions.n, 'sample')}")
    print(f"fields {fields}")
    print(f"look: lab data info {path}")
