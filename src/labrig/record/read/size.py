"""How much of a disk the files of a run take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .status import ENDED

PREDICTIONS = "predictions"  # of a run: what `lab predict` writes after its end
UNITS = ("B", "kB", "MB", "GB", "TB")


def bytes_below(directory: Path) -> int:
    """Of all files below a directory, links not followed; of what vanishes meanwhile nothing."""
    n_bytes = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                n_bytes += os.lstat(os.path.join(folder, name)).st_size
    return n_bytes


def size_of_run(run_dir: Path) -> int:
    """With the checkpoints, also when they lie elsewhere, behind the link of the run."""
    weights = run_dir / "checkpoints"
    behind_link = bytes_below(weights.resolve()) if weights.is_symlink() else 0
    return bytes_below(run_dir) + behind_link


def size_of_row(row: Mapping[str, Any]) -> int:
    """As `size_of_run`, for a run in a list: what it weighed at its end, and what was predicted since.

    One that goes on, that lacks weights by now, or that an earlier version wrote, is looked at.
    """
    run_dir = Path(row["run_dir"])
    is_whole = (run_dir / "checkpoints").exists() and not (run_dir / "archived.json").exists()
    if row["size_bytes"] is None or row["pruned"] or row["status"] not in ENDED or not is_whole:
        return size_of_run(run_dir)
    return row["size_bytes"] + bytes_below(run_dir / PREDICTIONS)


def format_bytes(n_bytes: int) -> str:
    """A size as text: 83 kB, 4.2 GB."""
    size: float = n_bytes
    for unit in UNITS:
        if size < 999.5 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{size:.2g} {unit}" if size < 9.95 and unit != "B" else f"{size:.0f} {unit}"
