"""The roots: the directories in which runs of this project lie.

Another site, or `paths.runs=` on the command line, makes runs in another root than today's
`paths.runs`. So each root has a line in the project's runs/.roots, and every command reads all.
Whoever does not want to see the runs of a root any more deletes its line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ...project import Project

FILE = "runs/.roots"  # below the project, where git ignores it


def run_roots(project: Project) -> list[Path]:
    """Every root of the project, as it is named; today's `paths.runs` first.

    Says of a root that is not there now, because it was moved or purged, and leaves it out.
    """
    roots = {project.paths.runs.resolve(): project.paths.runs}
    for root in [project.root / "runs", *recorded_roots(project)]:
        roots.setdefault(root.resolve(), root)
    missing = [root for root in recorded_roots(project) if not has_entries(root)]
    for root in missing:
        print(
            f"lab: {root} has runs and is not there now. If it was moved or purged, "
            f"change or delete its line in {project.root / FILE}",
            file=sys.stderr,
        )
    return [root for root in roots.values() if root not in missing]


def missing_roots(project: Project) -> list[Path]:
    """The roots whose runs cannot be read: their disk is not mounted, or they were moved."""
    missing = [root for root in recorded_roots(project) if not has_entries(root)]
    own = project.root / "runs"
    if own.is_symlink() and not own.exists():
        missing.append(own)
    return missing


def has_entries(root: Path) -> bool:
    """Whether a recorded root can be read. The place of a disk that is not mounted is often empty."""
    try:
        return any(root.iterdir())
    except OSError:
        return False


def recorded_roots(project: Project) -> list[Path]:
    """The lines of runs/.roots; none as long as all runs lie in runs/."""
    try:
        lines = (project.root / FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [Path(line) for line in lines if line]


def record_root(project: Project, root: Path) -> None:
    """Adds a root in which a run is made to runs/.roots, once."""
    roots = [project.root / "runs", *recorded_roots(project)]
    if root.resolve() in [each.resolve() for each in roots]:
        return
    file = project.root / FILE
    file.parent.mkdir(exist_ok=True)
    # One write of one line: two processes that do this at once lose nothing.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(descriptor, f"{root}\n".encode())
    finally:
        os.close(descriptor)
