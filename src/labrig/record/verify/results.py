"""Whether metrics and checkpoints are those that were recorded, and whether the code can be had again.

An attempt that was killed recorded none: what it may have written cannot be checked.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from ...errors import LabError
from ..files.atomic import hash_of_file, read_advisory, sha256
from ..files.json_lines import opened, read_lines
from ..files.manifest import listed_files, read_manifest
from ..files.schema import Archived, Code, Note, RowsOfCheckpoint, UnfrozenFile
from ..freeze.bundle import COMPRESSED
from ..freeze.frozen import unpack_code
from ..read.attempt_files import HASH_CHARACTERS, AttemptFiles, read_attempts
from ..read.run import Run
from ..read.status import FINISHED_WEIGHTS, ROWS
from ..write.attempt import LOGS
from ..write.weights_place import recorded_checkpoints
from .files import ARCHIVED, Part, listed_problems

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


# What the record lacks of the code that a run has run, for `lab runs verify` and `show`.


def lacking_code(run: Run) -> list[str]:
    """A line for each imported file that the record does not hold, and for what nobody compared."""
    lines = []
    attempts = read_attempts(run.dir)
    for attempt in attempts:
        # One that was killed before it trained left everything to the next.
        if attempt.end or "world_size" in attempt.start or attempt is attempts[-1]:
            lines += lacking_lines(attempt)
    return list(dict.fromkeys(lines))


def lacking_lines(attempt: AttemptFiles) -> list[str]:
    """What the record lacks of the code of one attempt."""
    code = attempt.start.get("code") or {}
    if not code.get("commit") or code.get("complete", True):
        return []
    lines = [
        f"incomplete: {file['path']} ran and is not recorded: {file['reason']}"
        for file in code.get("not_frozen", [])
    ]
    return lines or [f"incomplete: {code.get('reason', 'never compared with what ran')}"]


def archived_code(run: Run) -> list[str]:
    """What the code of a run from an archive is compared by, in a line; none for other runs."""
    code = run.record["code"]
    if not code.get("commit") or not (run.dir / ARCHIVED).exists():
        return []
    tree, commit = code["tree"][:HASH_CHARACTERS], code["commit"][:HASH_CHARACTERS]
    return [f"compared by its tree {tree}: an archive holds no history, so not commit {commit}"]


def changed_code(run: Run, root: Path | None) -> list[str]:
    """The files outside of the record that are no longer as they ran; none without a project."""
    if root is None:
        return []
    codes = [attempt.start.get("code") or {} for attempt in read_attempts(run.dir)]
    files = [file for code in codes for file in code.get("not_frozen", [])]
    changed = [
        file["path"] for file in files if file["kind"] != "changed" and not is_as_it_ran(file, root)
    ]
    return [
        f"code: {path}, which is not recorded, changed since" for path in dict.fromkeys(changed)
    ]


def is_as_it_ran(file: UnfrozenFile, root: Path) -> bool:
    path = root / file["path"]
    return path.is_file() and sha256(path) == file["sha256"]


def check_code(run: Run, root: Path | None) -> Part:
    """Writes out the frozen code of the run and of its attempts.

    Args:
        root: the project; None: the code comes from the bundles alone.
    """
    bundles = [name for name in read_manifest(run.dir) if name.endswith(".bundle")]
    archived = archived_code(run)
    if archived:
        bundles = [name for name in bundles if name.endswith(COMPRESSED)]
    part = Part("code", *listed_problems(run, bundles))
    part.unchecked.extend(archived)
    check_frozen(part, run.record["code"], root, run.dir)
    for attempt in read_attempts(run.dir):
        code = attempt.start.get("code") or {"same": True}
        if code.get("same"):
            continue
        folder = run.dir / "attempts" / str(attempt.n)
        check_frozen(part, code, root, folder, whose=f"attempt {attempt.n}: ")
    part.unchecked.extend(lacking_code(run))
    part.problems.extend(changed_code(run, root))
    return part


def check_frozen(part: Part, code: Code, root: Path | None, folder: Path, whose: str = "") -> None:
    """Adds to `part` whether code can be written out, with its bundles in `folder`."""
    if not code.get("commit"):
        reason = code.get("reason", "nobody knows why")
        part.unchecked.append(f"{whose}not recorded: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="lab-verify-") as temporary:
        try:
            destination = Path(temporary, "code")
            unpack_code(code, root, folder, destination, from_remote=root is not None)
        except LabError as error:
            part.problems.append(f"code: {whose}{error}")
