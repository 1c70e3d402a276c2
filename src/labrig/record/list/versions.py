"""Named versions: a tag that one run has, such as best-paper, moves to another when that is tagged.

The project keeps a file of lines for each, which git can keep: when it was set, to which run, by whom. The last counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..files.process import user

FOLDER = "versions"  # below the project, next to runs/
NOBODY = "-"  # in place of a run: no longer the tag of one run


def note_version(project_root: Path, name: str, run_id: str) -> None:
    """Adds a line to the history of a named version: it means `run_id` from now on."""
    file = project_root / FOLDER / f"{name}.txt"
    file.parent.mkdir(exist_ok=True)
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {run_id} {user()}\n"
    # One write of one line: two processes that do this at once lose nothing.
    with open(file, "ab", buffering=0) as stream:
        stream.write(line.encode())
        os.fsync(stream.fileno())


def run_of_version(roots: Sequence[Path], name: str, run_ids: Iterable[str]) -> str | None:
    """The one of `run_ids` that a name means now; None when it is no named version of such a run.

    Args:
        roots: directories that hold runs; that of the project lies next to its versions.
    """
    for root in roots:
        try:
            text = (root.parent / FOLDER / f"{name}.txt").read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        words = text.rstrip().rpartition("\n")[2].split()
        if len(words) > 1 and words[1] in run_ids:
            return words[1]
    return None
