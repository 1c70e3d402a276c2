"""Finds the weights that a run started from, by their content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ...errors import LabError, NotComparable
from ...project import Project
from ..files.schema import InitialWeights
from ..read.attempt_files import read_attempts
from ..read.find import find_run
from ..read.roots import run_roots
from ..read.run import Run
from ..write.initial_weights import content_of, resolve_weights, size_of


def recorded_weights(run: Run) -> InitialWeights:
    """What a run started from: as its newest attempt that loaded it says, else its record.

    Empty for random weights.
    """
    for attempt in reversed(read_attempts(run.dir)):
        if "init_from" in attempt.start:
            return attempt.start["init_from"]
    return run.record.get("init_from") or {}


def find_recorded_weights(run: Run, project: Project) -> Path:
    """The file that a run started from, by its content, wherever it lies now.

    Raises:
        NotComparable: it is gone, or has another content.
    """
    return find_content(recorded_weights(run), project, f"the weights that {run.id} started from")


def find_content(recorded: InitialWeights, project: Project, what: str) -> Path:
    """The file with the recorded content, wherever it lies now.

    Args:
        what: begins the message when there is none.
    """
    places = places_of(recorded, project)
    # A run that was extended keeps its earlier weights under another name.
    others = [path for place in places for path in sorted(place.parent.glob("*.ckpt"))]
    for path in [*places, *others]:
        if path.exists() and is_content(path, recorded):
            return path
    what = f"{what}, {recorded['source']},"
    expected = f"recorded was sha256 {str(recorded['sha256'])[:12]}"
    named = [path for path in places if path.exists()]
    if named:
        raise NotComparable(
            f"{what} have changed: {named[0]} has sha256 {content_of(named[0])[:12]}; {expected}"
        )
    raise NotComparable(f"{what} are gone: {recorded['path']} is no file; {expected}")


def places_of(recorded: InitialWeights, project: Project) -> list[Path]:
    """Where the recorded file may lie, the likeliest place first; there may be none."""
    places = []
    with suppress(LabError):
        if recorded["run"]:
            checkpoints = find_run(run_roots(project), recorded["run"]).checkpoints
            places.append(checkpoints / f"{recorded['checkpoint']}.ckpt")
        else:
            places.append(Path(resolve_weights(recorded["source"], project)["path"]))
    return list(dict.fromkeys([*places, Path(recorded["path"])]))


def is_content(path: Path, recorded: InitialWeights) -> bool:
    """Whether a file has the recorded content; any has, when none was recorded."""
    if recorded["sha256"] is None:
        return True
    return size_of(path) == recorded["size_bytes"] and content_of(path) == recorded["sha256"]


def format_weights(recorded: InitialWeights) -> str:
    """The line of `lab runs show`: what a run started from, and how much of it."""
    text = recorded["source"]
    if recorded["sha256"]:
        text += f", sha256 {recorded['sha256'][:12]}"
    if "n_loaded" in recorded:
        text += f", {recorded['n_loaded']} of {recorded['n_tensors']} tensors"
    return text
