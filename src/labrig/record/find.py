"""Finds a run by its id, a part of it, a tag, @last or @best:<metric>."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import LabError, nearest
from ..machine.counted import counted
from ..machine.terminal import printable
from .atomic import read_json
from .filters import is_of_trial
from .find_job import runs_of_job
from .index import RUN_ID, read_rows, run_directories
from .order import newest_mark, order_of
from .outcome import COUNT_FIRST
from .ranking import rank_by_metric, require_metric
from .run import Run

BEST = "@best:"
RUN_HELP = (
    "an id or its beginning, a tag, a job's id, @last, @best:val/loss or @best:val/loss:TRIAL"
)
N_LATEST = 20  # runs among which @last is looked for first


def find_run(roots: Sequence[Path], word: str) -> Run:
    """The run that `word` means.

    Args:
        roots: directories that hold runs, from `run_roots`.
        word: a directory, @last, @best:<metric>, @best:<metric>:<trial>, an id or its beginning,
            a tag, or the id of a job.

    Raises:
        LabError: none or several; the message names the nearest.
    """
    if "/" in word and not word.startswith("@") and Path(word).is_dir():
        return Run.open(Path(word).resolve())
    paths = [Path(directory) for directory in run_directories(*roots)]
    directories = {path.name: path for path in paths}
    if not directories:
        raise LabError(
            f"there are no runs in {roots[0]} yet. Make one with: lab train trial=baseline"
        )
    if word == "@last":
        return Run.open(newest_directory(roots, directories))
    if word.startswith(BEST):
        metric, _, trial = word.removeprefix(BEST).partition(":")
        return Run.open(best_directory(roots, metric, trial or "*"))
    run_ids = matching_ids(roots, list(directories.values()), word)
    if not run_ids:
        raise LabError(f"no run {word!r}{nearest(word, directories)}. Runs: lab runs list")
    if len(run_ids) > 1:
        listed = ", ".join(sorted(run_ids)[:5])
        raise LabError(f"{word!r} means {len(run_ids)} runs: {listed}. Give more of the id.")
    copies = [path for path in paths if path.name == run_ids[0]]
    if len(copies) > 1:
        raise LabError(
            f"{run_ids[0]} lies in {len(copies)} directories, so one is a copy:\n"
            + "".join(f"  {path}\n" for path in copies)
            + "Move the copy elsewhere, or type the directory in place of the id."
        )
    return Run.open(directories[run_ids[0]])


def newest_directory(roots: Sequence[Path], directories: dict[str, Path]) -> Path:
    """The directory of the newest run; `directories` holds all by their names."""
    # The newest run has one of the latest ids, unless a clock was set back.
    run_ids = sorted(filter(RUN_ID.fullmatch, directories))
    latest = run_ids[-N_LATEST:] + sorted(directories.keys() - set(run_ids))
    newest = max((directories[name] for name in latest), key=order_in_record)
    marks = [newest_mark(root) for root in roots if any(run_directories(root))]
    known_marks = [mark for mark in marks if mark is not None]
    if len(known_marks) == len(marks) and order_in_record(newest) >= max(known_marks):
        return newest
    return Path(read_rows(roots)[0]["run_dir"])


def order_in_record(run_dir: Path) -> int:
    """The place of a run in the order of all."""
    return order_of(read_json(run_dir / "run.json") or {"run_id": run_dir.name})


def best_directory(roots: Sequence[Path], metric: str, trial: str) -> Path:
    """The directory of the finished run whose last value of `metric` is the best; says which.

    Args:
        trial: a name, or a pattern such as "*".

    Raises:
        LabError: no finished run of the trial has the metric.
    """
    finished = [row for row in read_rows(roots) if row["status"] in COUNT_FIRST]
    require_metric(finished, metric)
    ranked = [row for row in rank_by_metric(finished, metric) if is_of_trial(row, trial)]
    if not ranked:
        trials = {row["trial"] for row in finished}
        of_trial = "" if trial == "*" else f" of trial {trial!r}{nearest(trial, trials)}"
        raise LabError(f"no finished run has a number as {metric!r}{of_trial}. Runs: lab runs list")
    best = ranked[0]
    print(
        f"lab: best last value of {metric} in {counted(len(ranked), 'finished run')}: "
        f"{best['metrics'][metric]:.6g}, {best['run_id']} ({printable(best['trial'])})",
        file=sys.stderr,
    )
    return Path(best["run_dir"])


def find_runs(roots: Sequence[Path], word: str) -> list[Run]:
    """The run that `word` means; all runs of a job array for its number.

    Raises:
        LabError: none, or several that are not one array.
    """
    directories = [Path(directory) for directory in run_directories(*roots)]
    of_job = runs_of_job(directories, word)
    return [Run.open(directory) for directory in of_job] or [find_run(roots, word)]


def matching_ids(roots: Sequence[Path], directories: list[Path], word: str) -> list[str]:
    """The names of the directories that `word` is, or that its job has, or that it begins.

    If there is none, those of the runs with the tag `word`, or whose directory was renamed from it.
    """
    run_ids = [directory.name for directory in directories]
    if word in run_ids:
        return [word]
    if of_job := runs_of_job(directories, word):
        return [directory.name for directory in of_job]
    matches = [run_id for run_id in run_ids if run_id.startswith(word)]
    if matches:
        return matches
    rows = read_rows(roots)
    return [row["run_id"] for row in rows if word in row["tags"] or word == row["renamed_from"]]


def run_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The parser of a command whose first word names a run; `find_run` takes it."""
    parser = argparse.ArgumentParser(prog=f"lab runs {command}", description=description)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    return parser
