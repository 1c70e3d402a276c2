"""`lab predict`: writes what a run predicts, or several: the mean of an ensemble, the folds of one."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ...config.overrides import SettingsParser
from ...errors import Failed, LabError, require_package
from ...machine.own_output import is_marked, refuse_to_overwrite
from ...machine.text_formats import counted
from ...project import Project
from ...record.compare.experiments import group_experiments, seed_of
from ...record.files.checkpoint_hashes import hash_once
from ...record.files.json_lines import read_lines
from ...record.files.manifest import append_listed
from ...record.files.schema import Code, Row
from ...record.read.find import RUN_HELP, find_run
from ...record.read.rows import read_rows, recorded_id
from ...record.read.run import Run, run_roots
from ...record.read.status import weights_of_numbers
from ...record.reproduce.today import run_with_frozen_code
from ...record.verify.command import PREDICTIONS
from ...record.write.claim import in_use
from ...record.write.ran import RanCode, imported_code, places_in
from ..parts.kept_data import with_kept_override
from .code_to_run import add_choices, code_to_run, config_to_run, facts_of_code, read_choices
from .prediction_table import HEAD_OF_CSV, TABLES, write_table

FOLDS = "folds"  # the split: the held-out samples of all folds
FOLD = "data.fold"
HELD_OUT = "val"  # the split of a fold's held-out samples
ONE_PROCESS = "trainer.devices=1"  # several runs, one after the other


def predict_command(project: Project, args: list[str]) -> int:
    options = parse_arguments(args)
    if options.to:
        refuse_other_format(options.to)
        refuse_to_overwrite(Path(options.to), is_prediction)
    runs = {name: find_run(run_roots(project), name) for name in options.runs}
    run = runs[options.run]
    with in_use(run.dir):
        kept = with_kept_override(options.overrides, run, project)[len(options.overrides) :]
        code = code_to_run(run, project, options.today, "predicts")
        if code is None:
            words = [str(runs[word].dir) if word in runs else word for word in args]
            return run_with_frozen_code(run, project, ["predict", *words, *kept])
        is_table = bool(options.to) and Path(options.to).suffix.lower() in TABLES
        target = Path(options.to).absolute() if options.to and not is_table else None
        if options.mean:
            row = predict_several(project, list(runs.values()), run, options, target)
        elif options.split == FOLDS:
            row = predict_several(project, runs_of_folds(project, run), run, options, target)
        else:
            settings = [*options.settings, *kept]
            row = predict_run(project, run, code, options, options.split, settings, target)
        if row is not None and is_table:
            from .predictable import own_data  # it imports HDF5

            write_table(
                Path(options.to), run.dir / row["path"], row, lambda: own_data(project, run)
            )
        elif row is not None:
            print(f"look: lab data info {os.path.relpath(run.dir / row['path'])}")
    return 0


def refuse_other_format(file: str) -> None:
    """Refuses the ending of a format that is not written."""
    suffix = Path(file).suffix.lower()
    if suffix not in ("", ".h5", ".hdf5", *TABLES):
        raise LabError(
            f"--to {file} has no ending that predictions are written as. Type one of: .csv, .parquet, .npz, .h5"
        )
    if suffix == ".parquet":
        require_package("pyarrow", "--to NAME.parquet")


def is_prediction(content: bytes) -> bool:
    """Whether a file is one of predictions: HDF5 that names its weights, or a table."""
    is_data_file = content.startswith(b"\x89HDF") and b"checkpoint_sha256" in content
    return is_data_file or content.startswith(HEAD_OF_CSV) or is_marked(content)


def parse_arguments(args: list[str]) -> argparse.Namespace:
    """The options, as `read_choices`; `runs` are the names of all runs, of which `run` is the first."""
    parser = SettingsParser(
        "lab predict",
        "Writes what RUN predicts for each sample, in their order. split=NAME chooses a split, split=all"
        " every sample, data=NAME another data set of conf/data; split=folds joins the held-out samples of"
        " all folds, each from the run that held it out. lab predict RUN RUN RUN --mean: an ensemble.",
        RUN_HELP,
    )
    add_choices(parser)
    parser.add_argument(
        "--to",
        metavar="FILE",
        help="a table .csv, .parquet or .npz with the names of samples and classes, or a data file .h5;"
        f" otherwise a data file in {DIRECTORY}/ of the run",
    )
    parser.add_argument("--mean", action="store_true", help="the mean of what several runs predict")
    options = read_choices(parser, args)
    more = [word for word in options.settings if "=" not in word]
    options.runs = [options.run, *more]
    options.settings = [word for word in options.settings if "=" in word]
    options.overrides = [word for word in options.overrides if "=" in word]
    if more and not options.mean:
        raise LabError(
            f"there are {len(options.runs)} runs. For the mean of what they predict, add: --mean"
        )
    if options.mean and (not more or options.split == FOLDS):
        raise LabError("a mean is of several runs, on one split: lab predict RUN RUN RUN --mean")
    return options


def predict_several(
    project: Project, runs: list[Run], run: Run, options: argparse.Namespace, target: Path | None
) -> dict[str, Any]:
    """Predicts with each run, one after the other in this process, and joins what they wrote.

    Args:
        runs: an ensemble, or the runs of all folds.
        run: that the row about the file is added to.

    Returns:
        The row.
    """
    from ...hdf5.file.checksum import fingerprint
    from ...hdf5.file.layout import read_layout
    from ...hdf5.pack.writer import write_fields
    from .predictions import (
        ROW,
        mean_of,  # all of them import HDF5
        merge_parts,
    )

    rows = [predict_member(project, each, options) for each in runs]
    refuse_other_data(runs, rows)
    files = [read_layout(each.dir / row["path"]) for each, row in zip(runs, rows, strict=True)]
    split, how = rows[0]["split"], "the mean of what they predict"
    if options.split == FOLDS:
        split, how = FOLDS, "each predicted by the run that held it out"
    name = "mean" if options.mean else FOLDS
    target = target or run.dir / DIRECTORY / f"{name}.h5"
    target.parent.mkdir(parents=True, exist_ok=True)
    provenance = {
        "runs": " ".join(each.id for each in runs),
        "checkpoint_sha256": " ".join(row["checkpoint_sha256"] for row in rows),
    }
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.stem}-") as directory:
        fields: Any = mean_of(files) if options.mean else merge_parts(files, Path(directory))
        splits = {split or "predict": range(len(fields[ROW]))}
        write_fields(target, fields, splits, provenance=provenance)
    layout = read_layout(target)
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": options.overrides,
        "path": place_of(target, run),
        "content_sha256": fingerprint(layout)["sha256"],
        "n": layout.n_samples,
        "split": split,
        "data": rows[0]["data"],
        "runs": [each.id for each in runs],
    }
    append_listed(run.dir, PREDICTIONS, row)
    print(f"{counted(len(runs), 'run')}, {counted(layout.n_samples, 'sample')}, {how}")
    return row


def refuse_other_data(runs: list[Run], rows: list[dict[str, Any]]) -> None:
    """Refuses to join what was predicted of other data: a row there is another sample."""
    for run, row in zip(runs, rows, strict=True):
        if row["data"].get("sha256") != rows[0]["data"].get("sha256"):
            read = " and ".join(
                str(each["data"].get("path", "data without a hash")) for each in (rows[0], row)
            )
            raise LabError(
                f"{runs[0].id} and {run.id} predicted samples of other data: {read}. Name those that both are to "
                "predict: data=NAME"
            )


def predict_member(project: Project, run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """The row about what one of several runs predicts."""
    split = HELD_OUT if options.split == FOLDS else options.split
    with in_use(run.dir):
        kept = with_kept_override(options.overrides, run, project)[len(options.overrides) :]
        settings = [*options.settings, *kept, ONE_PROCESS]
        code = code_to_run(run, project, options.today, "predicts")
        if code is not None:
            row = predict_run(project, run, code, options, split, settings)
            if row is None:
                raise LabError("several runs are predicted on one process: start one")
            return row
        chosen = {"split": split, "data": options.data}
        words = [f"{key}={value}" for key, value in chosen.items() if value]
        words += ["--checkpoint", options.checkpoint] if options.checkpoint else []
        if run_with_frozen_code(run, project, ["predict", str(run.dir), *words, *settings]):
            raise Failed(f"the prediction of {run.id} failed, see above. Nothing was joined")
        return read_lines(run.dir / PREDICTIONS)[-1]


def runs_of_folds(project: Project, run: Run) -> list[Run]:
    """The newest finished run of each fold, in their order: those of the experiment and seed of `run`."""
    roots = run_roots(project)
    experiments = group_experiments(read_rows(roots), over=(FOLD,))
    of_run = next(
        each for each in experiments if run.id in map(recorded_id, [*each.rows, *each.older])
    )
    n_folds = of_run.settings.get("data", {}).get("folds")
    if n_folds is None:
        raise LabError(
            f"{run.id} was trained without folds, so split=folds means nothing. "
            "Train them first: lab train trial=NAME data.folds=5 'data.fold=range(5)' -m"
        )
    by_fold: dict[int, Row] = {}
    for row in of_run.rows:
        if seed_of(row) == str(run.record["seed"]):
            by_fold.setdefault(row["settings"]["data"]["fold"], row)
    missing = [fold for fold in range(n_folds) if fold not in by_fold]
    if missing:
        listed = ",".join(map(str, missing))
        raise LabError(
            f"fold {listed} of {n_folds} has no finished run with the code, settings and seed of "
            f"{run.id}. Train it: lab train trial={run.trial} data.folds={n_folds} data.fold={listed} -m"
        )
    return [Run.open(Path(by_fold[fold]["run_dir"])) for fold in range(n_folds)]


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
    provenance = {
        "run": run.id,
        "checkpoint": checkpoint,
        "checkpoint_sha256": hash_once(run.checkpoints / f"{checkpoint}.ckpt"),
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
