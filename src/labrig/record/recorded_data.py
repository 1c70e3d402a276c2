"""Finds the data of a run along `paths.data`, by name, size and content."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..errors import NotComparable
from ..project import Project
from .run import Run


def find_recorded_data(project: Project, run: Run) -> Path | None:
    """The data file of a run, wherever it lies now; None when the record names none.

    It is searched in the directories of paths.data, by its name and then by its size; the place of
    the record comes last. The content decides, which the training would read anyway.

    Raises:
        NotComparable: no such file is there.
    """
    recorded = run.data
    if "path" not in recorded:
        return None
    if "size_bytes" not in recorded:
        return find_folder(project, run)
    named = [path for path in named_places(project, run) if path.is_file()]
    files = dict.fromkeys([*named, *files_in(project.paths.data)])
    candidates = [path for path in files if path.stat().st_size == recorded["size_bytes"]]
    hashes = []
    for path in candidates:
        if is_untouched(path, recorded):
            return path
        hashes.append(content_hash(path, project))
        if hashes[-1] == recorded["sha256"]:
            return path
    if hashes == [None]:
        return candidates[0]  # whoever reads it says what is wrong with it
    raise NotComparable(describe_missing(project, run, named))


def is_untouched(path: Path, recorded: dict[str, Any]) -> bool:
    """Whether a file is the recorded one, at its place and with its time of change."""
    is_same_place = path == Path(recorded["path"])
    return is_same_place and path.stat().st_mtime_ns == recorded.get("mtime_ns")


def describe_missing(project: Project, run: Run, named: list[Path]) -> str:
    """Which data a run read, and what is there in their place."""
    recorded = run.data
    expected = f"recorded were {recorded['size_bytes']} bytes, sha256 {recorded['sha256'][:12]}"
    if named:
        n_bytes = named[0].stat().st_size
        return f"the data of {run.id} was changed: {named[0]} has {n_bytes} bytes; {expected}"
    old = Path(recorded["path"])
    searched = ", ".join(map(str, project.paths.data))
    return (
        f"the data of {run.id} is missing: {old.name} is neither in {old.parent} nor in "
        f"{searched}; {expected}.\nCopy it there, or set paths.data"
    )


def find_folder(project: Project, run: Run) -> Path:
    """The folder of data of a run.

    Raises:
        NotComparable: there is none.
    """
    places = named_places(project, run)
    for place in places:
        if place.is_dir():
            return place
    listed = " nor ".join(map(str, places))
    raise NotComparable(
        f"the data of {run.id} is missing: there is neither {listed}. "
        "Copy it there, or set paths.data"
    )


def named_places(project: Project, run: Run) -> list[Path]:
    """Where data of the recorded name may lie, the likeliest place first."""
    places = [directory / name for directory in project.paths.data for name in relative_names(run)]
    places.append(Path(run.data["path"]))
    return list(dict.fromkeys(place.resolve() for place in places))


def relative_names(run: Run) -> list[str]:
    """The names of a run's data in a directory of data: as configured, and the last part alone."""
    recorded = Path(run.data["path"])
    section = run.config.get("data")
    configured = section.get("path") if isinstance(section, dict) else None
    names = [recorded.name]
    if isinstance(configured, str) and not Path(configured).is_absolute():
        names.insert(0, configured)
    return list(dict.fromkeys(names))


def files_in(directories: list[Path]) -> list[Path]:
    """All data files of these directories: the recorded one may have been renamed."""
    return [path.resolve() for directory in directories for path in sorted(directory.glob("*.h5"))]


def content_hash(path: Path, project: Project) -> str | None:
    """The fingerprint of a data file; None when it is damaged, or no file of `lab data pack`."""
    done = verify_data(path, project.root)
    return json.loads(done.stdout)["sha256"] if done.returncode == 0 else None


def verify_data(path: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """`lab data verify PATH --json`, as a process.

    What reads records imports neither HDF5 nor NumPy.
    """
    command = [sys.executable, "-m", "labrig", "data", "verify", str(path.absolute()), "--json"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)
