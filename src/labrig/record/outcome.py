"""How a run ended, over all its attempts: a run that has finished stays finished.

A later attempt that fails, is interrupted or is killed leaves the run its numbers. The weights of
these numbers stay too, as checkpoints/finished.ckpt, when that attempt has saved others.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .attempt_files import AttemptFiles, read_attempts
from .schema import EndRecord

# Of several attempts the last one with the first of these ends counts: finished; the fit finished
# and the test did not.
COUNT_FIRST = ("finished", "trained")
FINISHED_WEIGHTS = "finished.ckpt"


def deciding_attempt(attempts: list[AttemptFiles]) -> AttemptFiles | None:
    """The attempt whose status and metrics are those of the run; None when there is none."""
    for status in COUNT_FIRST:
        for attempt in reversed(attempts):
            if attempt.end.get("status") == status:
                return attempt
    return attempts[-1] if attempts else None


def status_at_end(attempts: list[AttemptFiles]) -> str:
    """The status of a run on which nobody works: how it ended, or lost when it did not write it."""
    deciding = deciding_attempt(attempts)
    return deciding.end["status"] if deciding and deciding.end else "lost"


def set_result_aside(run_dir: Path) -> None:
    """Makes room for a further attempt of a run that had ended.

    If it finished, its weights get a second name, which the next checkpoints do not replace. Its
    summary moves to its last attempt, because the run is running again.
    """
    attempts = read_attempts(run_dir)
    if not attempts:
        return
    deciding = deciding_attempt(attempts)
    if deciding and deciding.end.get("status") in COUNT_FIRST:
        link_finished_weights(run_dir / "checkpoints", deciding.end)
    summary = run_dir / "summary.json"
    if summary.exists():
        os.replace(summary, run_dir / "attempts" / str(attempts[-1].n) / "summary.json")


def link_finished_weights(checkpoints: Path, end: EndRecord) -> None:
    """Makes finished.ckpt from last.ckpt, unless an earlier attempt has left it.

    Args:
        end: end.json of the attempt whose weights they are. A file of another size is damaged.
    """
    last = checkpoints / "last.ckpt"
    finished = checkpoints / FINISHED_WEIGHTS
    recorded = end.get("checkpoints", {}).get(last.name, {})
    if finished.exists() or not last.exists() or last.stat().st_size != recorded.get("bytes"):
        return
    try:
        os.link(last, finished)
    except OSError:  # a file system without links
        temporary = checkpoints / f".{FINISHED_WEIGHTS}.tmp"
        shutil.copyfile(last, temporary)
        os.replace(temporary, finished)


def final_weights(checkpoints: Path) -> Path:
    """The checkpoint with the weights of the run's numbers; it may not exist."""
    finished = checkpoints / FINISHED_WEIGHTS
    return finished if finished.exists() else checkpoints / "last.ckpt"


def needless_weights(run_dir: Path, status: str) -> Path | None:
    """finished.ckpt, when an attempt that ends with `status` makes it needless; else None.

    That is so when the attempt finished, or saved no checkpoint.
    """
    finished = run_dir / "checkpoints" / FINISHED_WEIGHTS
    last = run_dir / "checkpoints" / "last.ckpt"
    if not finished.exists() or not last.exists():
        return None
    return finished if status == "finished" or finished.samefile(last) else None
