# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Finds a data file by name in the search path."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..machine.disk import node_local_directory
from ..project import Project, read_yaml, resolve_paths
from .file_layout import DataFileError, require


def data_config(project: Project, name: str) -> dict[str, Any]:
    """The YAML of a data set by its name; a mistyped one is answered before anything slow is imported."""
    directory = project.source / "conf" / "data"
    names = sorted(path.stem for path in directory.glob("*.yaml"))
    if name not in names:
        raise LabError(
            f"no data set {name!r}{nearest(name, names)}. {directory} has: {', '.join(names) or 'none'}"
        )
    config = read_yaml(directory / f"{name}.yaml")
    for key in ("_target_", "path"):
        if not isinstance(config.get(key), str):
            raise LabError(f"{directory / name}.yaml has no line for {key}; see digits.yaml")
    return config | {"_target_": config["_target_"].replace("${package}", project.package)}


def find_data_file(path: str | Path, search: Sequence[str | Path]) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    if path.is_absolute():
        return path
    root = Path.cwd()
    with suppress(LabError):  # outside of a project, relative directories lie here
        root = Project.find().root
    directories = resolve_paths({"runs": ".", "data": [str(entry) for entry in search]}, root)[
        "data"
    ]
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    there = [other.name for directory in directories for other in directory.glob("*.h5")]
    places = ", ".join(map(str, directories)) or "an empty search path"
    found = f"no data file {path} in {places}{nearest(path.name, there)}"
    raise DataFileError(f"{found}. Make it with: lab data pack {path.stem}")


def data_place(where: str) -> Path:
    """The directory that a value of data.stage means.

    Raises:
        DataFileError: it is not there.
    """
    found = {"shm": Path("/dev/shm"), "tmpdir": node_local_directory()}.get(
        where, Path(os.path.expandvars(where))
    )
    expected = "expected shm, tmpdir (with TMPDIR or the scheduler's variable set) or a directory"
    require(found and found.is_dir(), f"data.stage is {where!r}, which is not here; {expected}.")
    return found / f"lab-data-{os.getuid()}"


def add_file_argument(words: str, description: str) -> argparse.ArgumentParser:
    """The parser of a command about one data file."""
    parser = argparse.ArgumentParser(f"lab data {words}", description=description)
    parser.add_argument(
        "name", help="a file of conf/data without .yaml, or the path of a data file"
    )
    return parser


def data_file_of(project: Project, name: str) -> Path:
    """The file of a data set by its name, along paths.data; a path is taken as it is."""
    if Path(name).exists() or Path(name).suffix:
        return Path(name)
    return find_data_file(data_config(project, name)["path"], project.paths["data"])
