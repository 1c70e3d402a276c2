"""Whether the code of a run, and of attempts that ran other code, can be had again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ...errors import LabError
from ..files.atomic import sha256
from ..files.manifest import read_manifest
from ..files.schema import Code, UnfrozenFile
from ..freeze.bundle import COMPRESSED
from ..freeze.frozen import unpack_code
from ..read.attempt_files import HASH_CHARACTERS, AttemptFiles, read_attempts
from ..read.run import Run
from .files import ARCHIVED, Part, listed_problems

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
