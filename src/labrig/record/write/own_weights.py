"""Whether a checkpoint of a run is one that the run saved, by the hashes that it recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import LabError
from ..files.checkpoint_hashes import hash_once, known_hashes
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.status import FINISHED_WEIGHTS, deciding_attempt
from .weights_place import owner_of


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
