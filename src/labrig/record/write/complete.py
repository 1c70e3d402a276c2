"""Makes a record whole whose process was killed between the last files of an attempt."""

from __future__ import annotations

import os
from pathlib import Path

from ..files.manifest import write_listed
from ..read.attempt_files import read_attempts
from ..read.run import run_record
from ..read.summary import summarise
from .claim import is_claimed


def complete_record(run_dir: Path) -> list[str]:
    """Writes summary.json where the last attempt has ended without it; what was done, a line each.

    It holds nothing that the other files do not say.
    """
    path = run_dir / "summary.json"
    record = run_record(run_dir)
    attempts = read_attempts(run_dir)
    has_ended = bool(attempts) and bool(attempts[-1].end) and not attempts[-1].problems
    if not record or not has_ended or os.path.lexists(path) or is_claimed(run_dir):
        return []
    write_listed(run_dir, path.name, summarise(record, run_dir))
    return [f"{path} was missing; it was written from the attempts"]
