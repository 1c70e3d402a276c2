"""Whether metrics and checkpoints are those whose hashes the attempts recorded at their ends.

An attempt that was killed recorded none: what it may have written cannot be checked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..files.atomic import hash_of_file, read_advisory, sha256
from ..files.json_lines import opened, read_lines
from ..files.manifest import listed_files
from ..files.schema import Archived, Note, RowsOfCheckpoint
from ..read.attempt_files import AttemptFiles, read_attempts
from ..read.run import Run
from ..read.status import FINISHED_WEIGHTS, ROWS
from ..write.attempt import LOGS
from ..write.own_weights import recorded_checkpoints
from .files import ARCHIVED, Part

READ_BYTES = 1 << 20

BEST = "best.ckpt"
# A process that is killed while it saves may leave the first of these without the second.
SAVED = ("previous.ckpt", "last.ckpt")


def check_metrics(run: Run) -> Part:
    """The logs that every attempt appends to."""
    part = Part("metrics")
    attempts = read_attempts(run.dir)
    for name in LOGS:
        check_log(part, run.dir / name, attempts)
    log = run.dir / "metrics.jsonl"
    if not part.problems and any(not has_rows_of(log, attempt, run.dir) for attempt in attempts):
        part.problems.append(f"{log} was changed after a checkpoint")
    if not (run.dir / "metrics.jsonl").exists() and not part.problems:
        part.unchecked.append("none were written")
    return part


def has_rows_of(log: Path, attempt: AttemptFiles, run_dir: Path) -> bool:
    """Whether a log still has the rows of an attempt's last checkpoint; nothing is ever cut from it."""
    rows = read_advisory(run_dir / "attempts" / str(attempt.n) / ROWS, RowsOfCheckpoint)
    if rows is None:
        return True
    digest, left_bytes = hashlib.sha256(), rows["bytes"]
    with opened(log) as file:
        while part := file.read(min(left_bytes, READ_BYTES)):
            digest.update(part)
            left_bytes -= len(part)
    return digest.hexdigest() == rows["sha256_of_rows"]


def check_log(part: Part, path: Path, attempts: list[AttemptFiles]) -> None:
    """Adds to `part` whether a log is what it was at the last end that recorded its hash."""
    version = listed_files(path.parent).get(path.name)
    ended = [attempt for attempt in attempts if attempt.end]
    if version is None or version.sha256 is None:
        if path.exists():
            part.unchecked.append(f"{path.name} has no hash: {no_end(attempts[-1:])}")
        return
    expected = version.sha256
    later = attempts_after(ended[-1], attempts) if ended else attempts
    if not path.exists():
        part.problems.append(f"{path} is missing")
    elif hash_of_file(path) == expected:
        return
    elif later and begins_with(path, expected):
        part.unchecked.append(f"the last rows of {path.name} have no hash: {no_end(later)}")
    else:
        part.problems.append(f"{path} was changed")


def check_checkpoints(run: Run) -> Part:
    """The checkpoints by the hashes of the last end; a best one never goes away."""
    part = Part("checkpoints")
    attempts = read_attempts(run.dir)
    ended = [attempt for attempt in attempts if attempt.end]
    recorded = recorded_checkpoints(attempts)
    unread = [name for name, entry in recorded.items() if entry["sha256"] is None]
    recorded = {name: entry for name, entry in recorded.items() if name not in unread}
    later = attempts_after(ended[-1], attempts) if ended else attempts
    existing = {path.name for path in run.checkpoints.glob("*.ckpt")}
    left_out = (read_advisory(run.dir / ARCHIVED, Archived) or {}).get("left_out", [])
    notes = read_lines(run.dir / "notes.jsonl", Note)
    pruned = {name for note in notes for name in note.get("pruned", "").split()}
    for name in lost_checkpoints(ended, existing, was_killed=bool(later)):
        if name in pruned:
            part.unchecked.append(f"{name} was pruned")
        elif name in left_out:
            part.unchecked.append(f"{name} is not in the archive")
        else:
            part.problems.append(f"{run.checkpoints / name} is missing")
    unknown = []
    for name in sorted(existing):
        path = run.checkpoints / name
        if not (path.is_file() or path.is_dir()):
            part.problems.append(f"{path} is no file any more")
            continue
        if name in recorded and sha256(path) == recorded[name]["sha256"]:
            continue
        may_be_new = later and name != FINISHED_WEIGHTS
        if name in recorded and not may_be_new:
            part.problems.append(f"{path} was changed")
        else:
            unknown.append(name)
    if unknown:
        reason = f": {no_end(later)}" if later else ""
        if set(unknown) <= set(unread):
            reason = ": there was no time to read it when the run was interrupted"
        part.unchecked.append(f"no hash of {', '.join(unknown)}{reason}")
    if not existing and not part.problems:
        part.unchecked.append("none were written")
    return part


def lost_checkpoints(ended: list[AttemptFiles], existing: set[str], was_killed: bool) -> list[str]:
    """The names of checkpoints that should exist.

    Args:
        ended: the attempts that recorded their checkpoints.
        existing: the names of those that are there.
        was_killed: a later attempt may have renamed some.
    """
    recorded = set(ended[-1].end.get("checkpoints", {})) if ended else set()
    best = {BEST for attempt in ended if BEST in attempt.end.get("checkpoints", {})}
    if was_killed:
        newest_is_there = bool(existing & set(SAVED))
        recorded = set() if newest_is_there else recorded & {SAVED[-1]}
    return sorted((recorded | best) - existing)


def attempts_after(attempt: AttemptFiles, attempts: list[AttemptFiles]) -> list[AttemptFiles]:
    return [other for other in attempts if other.n > attempt.n]


def no_end(attempts: list[AttemptFiles]) -> str:
    """Why there is no hash."""
    if not attempts:
        return "no attempt began"
    if attempts[-1].end:
        return f"attempt {attempts[-1].n} did not record it"
    return f"attempt {attempts[-1].n} has not ended, or was killed"


def begins_with(path: Path, expected: str) -> bool:
    """Whether the first lines of a file have this sha256."""
    digest = hashlib.sha256()
    with opened(path) as file:
        for line in file:
            digest.update(line)
            if digest.hexdigest() == expected:
                return True
    return False
