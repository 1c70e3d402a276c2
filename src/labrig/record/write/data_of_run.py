"""Data that another run made: `data.path=RUN:FILE`.

What is typed may change its meaning later (@last), and is of this library alone. A new run gets the
path of the file, which any class can open; its record says which run made it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import LabError, nearest
from ...project import Project
from ..files.schema import DataOrigin
from ..read.attempt_files import WORK
from ..read.find import find_run
from ..read.roots import run_roots
from ..read.run import Run, run_record
from ..read.status import COUNT_FIRST, UNENDED, status_of
from .initial_weights import content_of, override_for

if TYPE_CHECKING:
    from ...config.compose import Composition

KEY = "data.path"
PREDICTIONS = "predictions"  # in the directory of a run: where `lab predict` writes
FOLDERS = ("", PREDICTIONS, WORK)  # of a run, in which a file is looked for by its name
OF_RECORD = (".json", ".jsonl", ".yaml", ".bundle", ".txt", ".sh")  # names that are never data
MAX_SHOWN = 10


def names_file_of_run(path: object) -> bool:
    """Whether a `data.path` means RUN:FILE: it has a colon, and is neither an address nor a file."""
    return isinstance(path, str) and ":" in path and "://" not in path and not Path(path).exists()


def file_of_run(reference: str, project: Project, *, may_come: bool = False) -> Path:
    """The file that RUN:FILE means. FILE is a path in the directory of the run, or a name alone.

    Args:
        may_come: accept a run that has not finished, and a file that is not there yet.
    """
    word, _, name = reference.rpartition(":")
    run = find_run(run_roots(project), word)
    status = status_of(run.dir)
    if status not in COUNT_FIRST and not may_come:
        to_do = (
            f"Wait for it: lab submit … {KEY}={reference} after={run.id}"
            if status in UNENDED
            else "Name a finished run: lab runs list"
        )
        raise LabError(
            f"{KEY}={reference}: run {run.id} is {status}, and its files may still change. {to_do}"
        )
    places = [run.dir / folder / name for folder in FOLDERS]
    found = next((place for place in places if place.exists()), None)
    if found is None and may_come:
        folder = WORK if "program" in (run.record.get("job") or {}) else PREDICTIONS
        found = run.dir / name if "/" in name else run.dir / folder / name
    if found is None:
        names = files_to_take(run)
        listed = ", ".join(names[:MAX_SHOWN]) or "none. To write predictions: lab predict " + run.id
        raise LabError(
            f"{KEY}={reference}: run {run.id} has no file {name!r}{nearest(name, names)}. "
            f"It has: {listed}"
        )
    if not found.resolve().is_relative_to(run.dir.resolve()):
        raise LabError(
            f"{KEY}={reference} leads out of {run.dir}. Type the path itself: {KEY}=PATH"
        )
    return found


def files_to_take(run: Run) -> list[str]:
    """What a run made besides its record and checkpoints, by the names that RUN:FILE takes."""
    names = []
    for folder in FOLDERS:
        files = sorted((run.dir / folder).glob("*"))
        names += [path.name for path in files if path.is_file() and path.suffix not in OF_RECORD]
    return [name for name in names if not name.startswith(".")]


def with_data_of_run(
    composition: Composition, project: Project, *, may_come: bool = False
) -> Composition:
    """A composition whose `data.path` is the file that RUN:FILE means; see `file_of_run`."""
    section: Any = composition.settings.get("data")
    typed = section.get("path") if isinstance(section, dict) else None
    if not isinstance(typed, str) or not names_file_of_run(typed):
        return composition
    path = str(file_of_run(typed, project, may_come=may_come))
    fixed = composition.with_setting(KEY, path)
    return replace(fixed, overrides=[*composition.overrides, override_for(KEY, path)])


def origin_of_data(settings: dict[str, Any]) -> DataOrigin | None:
    """Which run made the data that a new run reads, by where their file lies; None: none did."""
    path = path_of_data(settings)
    for directory in path.parents if path.is_absolute() else ():
        if record := run_record(directory):
            name = str(path.relative_to(directory))
            content = content_of(path) if path.is_file() else None
            return {"run": record["run_id"], "file": name, "sha256": content}
    return None


def path_of_data(settings: dict[str, Any]) -> Path:
    """`data.path` of settings; "." where it is no single path."""
    section = settings.get("data")
    text = section.get("path") if isinstance(section, dict) else None
    return Path(text) if isinstance(text, str) else Path()


def format_data_origin(origin: DataOrigin | None) -> str | None:
    """The line of `lab runs show`: the run that made the data, and its file."""
    if origin is None:
        return None
    content = f", sha256 {origin['sha256'][:12]}" if origin["sha256"] else ""
    return f"{origin['run']}:{origin['file']}{content}"


def is_to_come(settings: dict[str, Any]) -> bool:
    """Whether the data of a new run are a file of another run that is not there yet."""
    return not path_of_data(settings).exists() and origin_of_data(settings) is not None
