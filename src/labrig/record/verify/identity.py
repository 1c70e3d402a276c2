"""Whether a run's directory is the one that was recorded: not renamed, not a copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..list.rows import run_directories
from ..read.run import Run


def identity_problems(run: Run, roots: Sequence[Path]) -> list[str]:
    """Says, a line each, that the directory of a run was renamed, or that a root has a copy."""
    here = run.dir.resolve()
    paths = [Path(directory) for directory in run_directories(*roots)]
    others = [path for path in paths if path.name == run.id and path.resolve() != here]
    if run.dir.name == run.id:
        return [f"one of two is a copy; the other is {other}" for other in others]
    if others:
        return [f"this directory is a copy of {others[0]}"]
    return [
        f"the directory was renamed; it was {run.id}",
        f"type: mv {run.dir} {run.dir.with_name(run.id)}",
    ]
