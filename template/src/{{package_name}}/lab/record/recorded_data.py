# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Finds the data of a run along `paths.data`, by name, size and content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .. import env
from ..errors import NotComparable
from ..project import LAB, PACKAGE, Project
from .run import Run


def find_recorded_data(project: Project, run: Run) -> Path | None:
    """The data file of a run, wherever it lies now; None when the record names none.

    It is searched in the directories of paths.data, by its name and then by its size. The place of
    the record comes last. Of several files of its size, the one with the recorded content counts.

    Raises:
        NotComparable: no such file is there.
    """
    recorded = run.data
    if "path" not in recorded:
        return None
    if "size_bytes" not in recorded:
        return find_folder(project, run)
    named = [path for path in named_places(project, run) if path.is_file()]
    size_bytes = recorded["size_bytes"]
    candidates = [path for path in named if path.stat().st_size == size_bytes]
    candidates = candidates or files_of_size(project, size_bytes)
    if len(candidates) > 1:
        candidates = [path for path in candidates if has_content(path, recorded["sha256"], project)]
    if candidates:
        return candidates[0]
    old = Path(recorded["path"])
    if not named:
        searched = ", ".join(str(directory) for directory in project.paths.data)
        raise NotComparable(
            f"the data of {run.id}, {old.name}, is missing: it is neither {old} nor in {searched}; "
            f"recorded were {size_bytes} bytes. Copy it there, or set paths.data"
        )
    found = named[0]
    raise NotComparable(
        f"the data of {run.id}, {found}, has other content or {found.stat().st_size} bytes; "
        f"recorded were {size_bytes} bytes, sha256 {recorded['sha256'][:12]}"
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
    raise NotComparable(f"the data of {run.id} is missing: there is neither {listed}")


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


def files_of_size(project: Project, size_bytes: int) -> list[Path]:
    """The data files of this size: the recorded one may have been renamed."""
    files = [path for directory in project.paths.data for path in sorted(directory.glob("*.h5"))]
    return [path for path in files if path.stat().st_size == size_bytes]


def has_content(path: Path, sha256: str, project: Project) -> bool:
    """Whether a data file is whole and has this fingerprint."""
    done = verify_data(path, project.root)
    return done.returncode == 0 and json.loads(done.stdout)["sha256"] == sha256


def verify_data(path: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """`lab data verify PATH --json`, as a process.

    What reads records imports neither HDF5 nor NumPy.
    """
    command = [sys.executable, "-m", f"{PACKAGE}.lab", "data", "verify", str(path), "--json"]
    variables = os.environ | {"PYTHONPATH": str(LAB.parent.parent), env.PROJECT: str(root)}
    return subprocess.run(command, env=variables, capture_output=True, text=True)
