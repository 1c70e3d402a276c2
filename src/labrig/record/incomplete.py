"""What the record lacks of the code that a run has run, for `lab runs verify` and `show`."""

from __future__ import annotations

from pathlib import Path

from .atomic import sha256
from .attempt_files import AttemptFiles, read_attempts
from .run import Run
from .schema import UnfrozenFile


def lacking_code(run: Run) -> list[str]:
    """A line for each imported file that the record does not hold, and for what nobody compared."""
    lines = []
    for attempt in read_attempts(run.dir):
        lines += lacking_lines(attempt)
    return list(dict.fromkeys(lines))


def lacking_lines(attempt: AttemptFiles) -> list[str]:
    """What the record lacks of the code of one attempt; nothing in records of an older lab."""
    code = attempt.start.get("code") or {}
    if not code.get("commit") or code.get("complete", True):
        return []
    lines = [
        f"incomplete: {file['path']} ran and is not recorded: {file['reason']}"
        for file in code.get("not_frozen", [])
    ]
    return lines or [f"incomplete: {code.get('reason', 'never compared with what ran')}"]


def changed_code(run: Run, root: Path) -> list[str]:
    """The files outside of the record that are no longer as they ran. `root` is the project's."""
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
