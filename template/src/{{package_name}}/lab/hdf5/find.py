# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Finds a data file along the search path of `paths.data`."""

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import LabError, nearest
from ..project import Project, resolve_paths
from .file_layout import DataFileError


def find(path: str | Path, search: Sequence[str | Path]) -> Path:
    """`path` in the first directory of `search` that has it; an absolute path is taken as it is.

    Raises:
        DataFileError: no directory has it; lists them and the nearest name there is.
    """
    path = Path(os.path.expandvars(path)).expanduser()
    if path.is_absolute():
        return path
    try:
        root = Project.find().root
    except LabError:  # outside of a project, relative directories lie here
        root = Path.cwd()
    directories = resolve_paths({"runs": ".", "data": [str(entry) for entry in search]}, root)["data"]
    for directory in directories:
        if (directory / path).exists():
            return directory / path
    there = [other.name for directory in directories for other in directory.glob("*.h5")]
    places = ", ".join(map(str, directories)) or "an empty search path"
    found = f"no data file {path} in {places}{nearest(path.name, there)}"
    raise DataFileError(f"{found}. Make it with: lab data pack {path.stem}")
