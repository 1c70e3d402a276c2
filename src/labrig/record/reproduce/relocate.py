"""The recorded configuration of a run with the places of this project.

A run may come from another machine, another clone, or a project that was moved. Its repetition
reads data here, and writes nothing to the old place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ... import env
from ...config.resolve import plain_values
from ...errors import LabError
from ...project import Paths, Project
from ..read.attempt_files import read_attempts
from ..read.run import Run
from ..write.initial_weights import resolve_weights
from .recorded_data import find_recorded_data
from .recorded_weights import find_recorded_weights, recorded_weights


def config_here(project: Project, original: Run, file: Path) -> str:
    """The configuration in `file`, which `original` recorded, as YAML with this project's paths."""
    # the names as recorded: the repetition runs the recorded code
    sections = plain_values(cast("DictConfig", OmegaConf.load(file)))
    old_paths = sections.get("paths") or {}
    moves = list_moves(project, old_paths, old_root(original))
    here = moved(sections, moves, old_paths.get("data"), texts(project.paths.data))
    here["paths"] = here.get("paths", {}) | {
        "runs": str(project.paths.runs),
        "checkpoints": text_or_none(project.paths.checkpoints),
        "data": texts(project.paths.data),
        "scratch": text_or_none(project.paths.scratch),
    }
    place_data(project, original, here)
    place_weights(project, original, here)
    return OmegaConf.to_yaml(OmegaConf.create(here))


def old_root(original: Run) -> Path | None:
    """The root of the project in which a run was made; None when its record does not say."""
    attempts = read_attempts(original.dir)
    if not attempts or "imported_from" not in attempts[0].start:
        return None
    start = attempts[0].start
    live_root = Path(start["imported_from"]).parents[1]
    return Path(start.get("variables", {}).get(env.PROJECT, live_root))


def list_moves(project: Project, old: dict[str, Any], root: Path | None) -> list[tuple[str, str]]:
    """Pairs of an old directory and the one that takes its place here, inner directories first."""
    new: Paths = project.paths
    pairs = [(old.get("runs"), new.runs), (old.get("checkpoints"), new.checkpoints)]
    pairs += [(old.get("scratch"), new.scratch), (root, project.root)]
    moves = [(str(before), str(after)) for before, after in pairs if before and after]
    return sorted(moves, key=lambda move: len(move[0]), reverse=True)


def moved(value: Any, moves: list[tuple[str, str]], old_data: Any, data: list[str]) -> Any:
    """`value` with every path below an old directory in the new one, and the data's search path."""
    if isinstance(value, dict):
        return {key: moved(item, moves, old_data, data) for key, item in value.items()}
    if isinstance(value, list):
        if old_data and value == old_data:
            return data
        return [moved(item, moves, old_data, data) for item in value]
    if isinstance(value, str):
        for before, after in moves:
            if value == before or value.startswith(f"{before}/"):
                return after + value.removeprefix(before)
    return value


def place_data(project: Project, original: Run, sections: dict[str, Any]) -> None:
    """Has `data.path` name the recorded file, where the search path would find another or none."""
    files = find_recorded_data(project, original)
    data = sections.get("data")
    if not files or not isinstance(data, dict):
        return
    if len(files) > 1:
        data["path"] = texts(files)
        return
    if not isinstance(data.get("path"), str):
        return
    places = [Path(directory, data["path"]) for directory in project.paths.data]
    data_file = next((place for place in places if place.exists()), None)
    if data_file is None or not data_file.samefile(files[0]):
        data["path"] = str(files[0])


def place_weights(project: Project, original: Run, sections: dict[str, Any]) -> None:
    """Has `init_from` name the recorded weights, wherever they lie now."""
    recorded = recorded_weights(original)
    if not recorded:
        return
    file = find_recorded_weights(original, project)
    sections["init_from"] = str(file)
    with suppress(LabError):
        if resolve_weights(recorded["source"], project)["path"] == str(file):
            sections["init_from"] = recorded["source"]


def texts(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def text_or_none(path: Path | None) -> str | None:
    return None if path is None else str(path)
