"""The checkpoints of a run: those that lie elsewhere, behind the link `checkpoints`, and whether the run saved them.

A file in the directory names its run. So a copy of the run, which has the same link, neither deletes nor
overwrites the weights of the original, and a link in a run that was received leads to nothing of one's own.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from ...errors import LabError, Refused
from ..files.atomic import write_file
from ..files.checkpoint_hashes import hash_once, known_hashes
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.status import FINISHED_WEIGHTS, deciding_attempt

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


def recorded_checkpoints(attempts: list[AttemptFiles]) -> dict[str, Any]:
    """The checkpoints by name, as the last end recorded them; finished.ckpt is that of the run's numbers."""
    deciding = deciding_attempt(attempts)
    last = deciding.end.get("checkpoints", {}).get("last.ckpt") if deciding else None
    ends = [attempt.end.get("checkpoints", {}) for attempt in attempts if attempt.end]
    return ({FINISHED_WEIGHTS: last} if last else {}) | (ends[-1] if ends else {})


def refuse_other_weights(path: Path, *, under_any_name: bool = False) -> None:
    """Makes sure that a checkpoint in the directory of a run is as it was saved, as far as it was recorded.

    An attempt that was killed, or still trains, recorded none: the directory has the hashes of its saves,
    but not of a checkpoint that is a directory.
    """
    found = hash_once(path)  # before the hashes are read: a training may save meanwhile
    run_dir = owner_of(path.parent) or path.parent.parent
    attempts = read_attempts(run_dir)
    recorded = recorded_checkpoints(attempts)
    names = recorded if under_any_name else recorded.keys() & {path.name}
    hashes = {recorded[name]["sha256"] for name in names}
    if attempts and not attempts[-1].end and path.name != FINISHED_WEIGHTS:
        kept = {entry["sha256"] for entry in known_hashes(path.parent).values() if path.is_file()}
        hashes = hashes | kept if kept else kept
    if hashes and not hashes & {None, found}:
        raise LabError(
            f"{path} holds other weights than {run_dir.name} saved: its record has no sha256 {found[:12]}.\n"
            f"Restore it from a copy, or train again with: lab runs reproduce {run_dir.name}"
        )
