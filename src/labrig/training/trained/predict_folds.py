"""`lab predict RUN split=folds`: what each fold's run predicts for its held-out samples, in one file."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from ...errors import Failed, LabError
from ...project import Project
from ...record.compare.experiments import group_experiments, seed_of
from ...record.files.json_lines import read_lines
from ...record.files.manifest import append_listed
from ...record.files.schema import Row
from ...record.list.rows import read_rows, recorded_id
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ...record.reproduce.run_frozen import run_lab
from ...record.verify.command import PREDICTIONS

FOLD = "data.fold"
HELD_OUT = "val"  # the split of a fold's held-out samples


def predict_folds(project: Project, run: Run, options: argparse.Namespace, target: Path) -> None:
    """Predicts the held-out samples of each fold with the run that did not train on them.

    Args:
        run: of any of the folds; the row about the file is added to it.
        target: the file to write.

    Raises:
        LabError: the run has no folds, or a fold has no finished run.
        Failed: a prediction failed; see what it printed.
    """
    from ...hdf5.file.checksum import fingerprint  # they import HDF5
    from ...hdf5.file.layout import read_layout
    from ...hdf5.pack.merge import ROW, merge_parts
    from ...hdf5.pack.writer import write_fields

    runs = runs_of_folds(project, run)
    words = [f"split={HELD_OUT}", *options.overrides]
    if options.checkpoint:
        words += ["--checkpoint", options.checkpoint]
    if options.today:
        words.append("--today")
    files = [predict_one(other, words) for other in runs]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".folds-") as directory:
        merged = merge_parts([read_layout(file) for file in files], Path(directory))
        rows: Any = merged[ROW]
        ids = [other.id for other in runs]
        write_fields(
            target, merged, {"folds": range(len(rows))}, provenance={"runs": " ".join(ids)}
        )
    layout = read_layout(target)
    row = {
        "time_unix_s": round(time.time(), 3),
        "overrides": options.overrides,
        "path": str(target.relative_to(run.dir) if target.is_relative_to(run.dir) else target),
        "content_sha256": fingerprint(layout)["sha256"],
        "n": layout.n_samples,
        "split": "folds",
        "runs": ids,
    }
    append_listed(run.dir, PREDICTIONS, row)
    print(
        f"{len(runs)} folds, {layout.n_samples} samples, each predicted by the run that held it out"
    )
    print(f"look: lab data info {target}")


def runs_of_folds(project: Project, run: Run) -> list[Run]:
    """The newest finished run of each fold, in their order: those of the experiment and seed of `run`.

    Raises:
        LabError: the run has no folds, or a fold has no finished run.
    """
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


def predict_one(run: Run, words: list[str]) -> Path:
    """The file of what one run predicts, by `lab predict RUN WORDS` in a process of its own.

    Raises:
        Failed: the prediction failed.
    """
    if run_lab(["predict", str(run.dir), *words], {}):
        raise Failed(f"the prediction of {run.id} failed, see above")
    return run.dir / read_lines(run.dir / PREDICTIONS)[-1]["path"]
