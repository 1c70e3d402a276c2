"""Finds a data file by name: its YAML in conf/data or in a trial, then the directories of paths.data."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.check_target import absolute_target
from ..errors import LabError, nearest
from ..project import Project, read_yaml, resolve_paths, this_project
from .file_errors import DataFileError


@dataclass(frozen=True)
class DataConfig:
    """What the commands need of a data set's YAML: the data module's class, and the file."""

    target: str
    path: str
    pack: str | None  # the command that makes the file


def config_file_of(project: Project, name: str) -> Path:
    """conf/data/NAME.yaml; else the config.yaml of the trial NAME, if it has data of its own."""
    file = project.source / "conf" / "data" / f"{name}.yaml"
    of_trial = project.source / "trials" / name / "config.yaml"
    if not file.exists() and "_target_" in section_of_trial(of_trial):
        return of_trial
    return file


def section_of_trial(file: Path) -> dict[str, Any]:
    """The section `data` of a trial's config.yaml; empty where there is none."""
    section = read_yaml(file).get("data") if file.exists() else None
    return section if isinstance(section, dict) else {}


def read_data_config(project: Project, name: str) -> DataConfig:
    """The YAML of a data set by its name, read before anything slow is imported.

    Raises:
        LabError: there is no such data set, or its YAML lacks a line.
    """
    file = config_file_of(project, name)
    of_trial = file.name == "config.yaml" and file.parent.name == name
    if not file.exists():
        names = sorted(path.stem for path in file.parent.glob("*.yaml"))
        listed = ", ".join(names) or "none"
        raise LabError(f"no data set {name!r}{nearest(name, names)}. {file.parent} has: {listed}")
    config = section_of_trial(file) if of_trial else read_yaml(file)
    examples = {"_target_": "${package}.data.Digits", "path": "digits.h5"}
    for key, example in examples.items():
        if not isinstance(config.get(key), str):
            raise LabError(f"{file} has no line for {key}. Add one such as: {key}: {example}")
    target = config["_target_"].replace("${package}", project.package)
    if of_trial:
        target = absolute_target(target, name)
    return DataConfig(target, config["path"], config.get("pack"))


def find_data_file(
    path: str | Path, search: Sequence[str | Path], command: str | None = None
) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    Args:
        command: what makes the file, for the message when it is missing.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    command = command or f"lab data pack {path.stem}"
    if path.is_absolute():
        if not path.exists():
            raise DataFileError(f"{path}: No such file. Make it with: {command}")
        return path
    directories = _resolve_search(search)
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    names = [file.name for directory in directories for file in directory.glob("*.h5")]
    listed = ", ".join(map(str, directories)) or "an empty search path"
    raise DataFileError(
        f"no data file {path} in {listed}{nearest(path.name, names)}. Make it with: {command}"
    )


def _resolve_search(search: Sequence[str | Path]) -> list[Path]:
    root, package = Path.cwd(), ""
    with suppress(LabError):  # outside of a project, relative directories lie here
        project = this_project()
        root, package = project.root, project.package
    entries = [str(entry) for entry in search]
    return resolve_paths({"runs": ".", "data": entries}, root, package).data


def parser_for_one_file(command: str, description: str) -> argparse.ArgumentParser:
    """The parser of `lab data COMMAND NAME`."""
    parser = argparse.ArgumentParser(f"lab data {command}", description=description)
    parser.add_argument(
        "name", help="a file of conf/data without .yaml, a trial with data, or a data file"
    )
    return parser


def data_file_of(project: Project, name: str) -> Path:
    """The file of a data set by its name, along paths.data; a path is taken as it is.

    Raises:
        LabError: there is no such data set or file.
    """
    if Path(name).exists() or Path(name).suffix:
        return Path(name)
    config = read_data_config(project, name)
    return find_data_file(config.path, project.paths.data, config.pack)
