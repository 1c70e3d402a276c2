# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From what a person types to a run: an id or its beginning, a path, a tag, @last, @best:val/loss."""

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
    directories = {Path(directory).name: Path(directory) for directory in run_directories(runs)}
    if not directories:
        raise LabError(f"there are no runs in {runs} yet. Make one with: lab train trial=baseline")
    if word == "@last":
        second = max(directories)[:15]
        newest = [directory for name, directory in directories.items() if name[:15] == second]
        return Run.open(max(newest, key=lambda directory: (directory / "run.json").stat().st_mtime_ns))
    if word.startswith("@best:"):
        return Run.open(Path(best(rows(runs), word.removeprefix("@best:"))[0]["run_dir"]))
    matches = [word] if word in directories else [name for name in directories if name.startswith(word)]
    matches = matches or [row["run_id"] for row in rows(runs) if word in row["tags"]]
    if len(matches) == 1:
        return Run.open(directories[matches[0]])
    if matches:
        raise LabError(f"{word!r} means {len(matches)} runs: {', '.join(sorted(matches)[:5])}. Give more of the id.")
    raise LabError(f"no run {word!r}{nearest(word, directories)}. Runs: lab runs list")


def best(known: list[dict], metric: str) -> list[dict]:
    """The finished ones of `known` that have `metric`, best final value first.

    Raises:
        LabError: none has it.
    """
    finished = [row for row in known if row["status"] == "finished"]
    measured = [row for row in finished if isinstance(row["metrics"].get(metric), int | float)]
    if not measured:
        names = sorted({name for row in finished for name in row["metrics"]})
        there = ", ".join(names) or "none"
        raise LabError(f"no finished run has {metric!r}{nearest(metric, names)}. Metrics: {there}")
    sign = 1 if lower_is_better(metric) else -1
    return sorted(measured, key=lambda row: sign * row["metrics"][metric])
