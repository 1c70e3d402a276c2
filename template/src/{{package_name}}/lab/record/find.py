# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Finds a run by its id, a part of it, @last or @best."""

import argparse
from pathlib import Path

from ..errors import LabError, nearest
from .index import check_metric, ranked, rows, run_directories
from .run import Run


def find_run(runs: Path, word: str) -> Run:
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
        return Run.open(
            max(newest, key=lambda directory: (directory / "run.json").stat().st_mtime_ns)
        )
    if word.startswith("@best:"):
        return Run.open(Path(best_run(rows(runs), word.removeprefix("@best:"))[0]["run_dir"]))
    matches = (
        [word] if word in directories else [name for name in directories if name.startswith(word)]
    )
    matches = matches or [row["run_id"] for row in rows(runs) if word in row["tags"]]
    if len(matches) == 1:
        return Run.open(directories[matches[0]])
    if matches:
        raise LabError(
            f"{word!r} means {len(matches)} runs: {', '.join(sorted(matches)[:5])}. Give more of the id."
        )
    raise LabError(f"no run {word!r}{nearest(word, directories)}. Runs: lab runs list")


def best_run(known: list[dict], metric: str) -> list[dict]:
    """The finished ones of `known` that have `metric`, best final value first.

    Raises:
        LabError: none has it.
    """
    finished = [row for row in known if row["status"] == "finished"]
    check_metric(finished, metric)
    if not ranked(finished, metric):
        raise LabError(f"no finished run has a number as {metric!r}. Runs: lab runs list")
    return ranked(finished, metric)


def run_parser(command: str, about: str) -> argparse.ArgumentParser:
    """The parser of a command whose first word names a run; `find` takes it."""
    parser = argparse.ArgumentParser(prog=f"lab runs {command}", description=about)
    parser.add_argument("run", help="an id or its beginning, a tag, @last, @best:val/loss")
    return parser
