# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Whether a run's directory is the one that was recorded: not renamed, not a copy."""

from __future__ import annotations

from pathlib import Path

from .index import run_directories
from .run import Run


def identity_problems(run: Run) -> list[str]:
    """Says, a line each, that the directory of a run was renamed, or that there is a copy."""
    others = [path for path in directories_of(run.runs, run.id) if path != run.dir]
    if run.dir.name == run.id:
        return [f"{run.id} lies also in {other}; one of the two is a copy" for other in others]
    if others:
        return [f"{run.dir} is a copy of {others[0]}: its record is of {run.id}"]
    renamed = run.dir.with_name(run.id)
    return [
        f"the directory was renamed: its record is of {run.id}. "
        f"Give it back its name: mv {run.dir} {renamed}"
    ]


def directories_of(runs: Path, run_id: str) -> list[Path]:
    """Every directory below `runs` with the name `run_id`."""
    return [path for path in map(Path, run_directories(runs)) if path.name == run_id]
