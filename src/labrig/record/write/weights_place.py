"""Checkpoints that lie elsewhere, behind the link `checkpoints`: whose they are.

A file in the directory names its run. So a copy of the run, which has the same link, neither deletes nor
overwrites the weights of the original, and a link in a run that was received leads to nothing of one's own.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ...errors import Refused
from ..files.atomic import write_file

OWNER = ".run"  # in the directory: that of its run
LINK = "checkpoints"


def mark_place(place: Path, run_dir: Path) -> None:
    """Writes into a directory of checkpoints to which run they belong."""
    write_file(place / OWNER, f"{run_dir.parent.resolve() / run_dir.name}\n")


def place_behind(directory: Path) -> Path | None:
    """Where the link of a run leads; None when its checkpoints lie in it."""
    link = directory / LINK
    return directory / os.readlink(link) if link.is_symlink() else None


def owner_of(place: Path) -> Path | None:
    """The directory of the run that a place of checkpoints names; None when it names none."""
    try:
        text = (place / OWNER).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return Path(text) if text.startswith("/") else None


def own_place(directory: Path, name: str) -> Path | None:
    """Where the checkpoints of a run lie behind its link; None when they lie in it, or are not its own.

    Args:
        directory: of the run, which may be hidden already.
        name: of that directory before.
    """
    place = place_behind(directory)
    if place is None or place.is_symlink() or place.name != name:
        return None
    owner = owner_of(place)
    if owner is None or owner.name != name or not owner.parent.is_dir():
        return None
    return place if owner.parent.samefile(directory.parent) else None


def require_own_place(run_dir: Path) -> None:
    """Makes sure that the checkpoints of another run are not overwritten.

    Those of a run whose directory was moved belong to it in its new place.
    """
    place = place_behind(run_dir)
    if place is None or not place.exists() or own_place(run_dir, run_dir.name):
        return
    owner = owner_of(place)
    if owner is not None and not (owner / "run.json").exists():
        mark_place(place, run_dir)
        return
    belongs = f"belongs to {owner}" if owner else "was not made for this run"
    link = shlex.quote(str(run_dir / LINK))
    raise Refused(
        f"the checkpoints of {run_dir.name} lie in {place}, which {belongs}; an attempt would "
        f"overwrite them.\nGive this run its own: rm {link} && cp -r {shlex.quote(str(place))} {link}"
    )
