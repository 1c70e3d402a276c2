# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From what a person types to a run: an id or its beginning, a path, a tag, @last, @best:val/loss."""

from __future__ import annotations

from pathlib import Path

from ..errors import LabError, nearest
from .rows import lower_is_better, rows, run_directories
from .run import Run


def find(runs: Path, word: str) -> Run:
    """The run that `word` means.

    Raises:
        LabError: none or several; the message names the nearest.
    """
    if "/" in word and not word.startswith("@") and Path(word).is_dir():
        return Run.open(Path(word).resolve())
    directories = {directory.name: directory for directory in run_directories(runs)}
    if not directories:
        raise LabError(f"there are no runs in {runs} yet. Make one with: lab train trial=baseline")
    if word == "@last":
        return Run.open(directories[max(directories)])
    if word.startswith("@best:"):
        return Run.open(best(runs, word.removeprefix("@best:")))
    if word in directories:
        return Run.open(directories[word])
    matches = [name for name in directories if name.startswith(word)] or [
        row["run_id"] for row in rows(runs) if word in row["tags"]
    ]
    if len(matches) == 1:
        return Run.open(directories[matches[0]])
    if matches:
        raise LabError(
            f"{word!r} means {len(matches)} runs: {', '.join(sorted(matches)[:5])}. Give more of the id."
        )
    raise LabError(f"no run {word!r}{nearest(word, directories)}. Runs: lab runs list")


def best(runs: Path, metric: str) -> Path:
    """Directory of the finished run with the best final value of `metric`."""
    known = [row for row in rows(runs) if row["status"] == "finished"]
    measured = [row for row in known if isinstance(row["metrics"].get(metric), int | float)]
    if not measured:
        names = sorted({name for row in known for name in row["metrics"]})
        raise LabError(
            f"no finished run has {metric!r}{nearest(metric, names)}. Metrics: {', '.join(names) or 'none'}"
        )
    sign = 1 if lower_is_better(metric) else -1
    return Path(min(measured, key=lambda row: sign * row["metrics"][metric])["run_dir"])
