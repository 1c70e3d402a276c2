"""What the record says of the data, and a word when they changed since the trial's previous run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.utilities import rank_zero_only

from ...errors import LabError
from ...record.read.attempt_files import read_attempts

N_EARLIER = 100  # runs of the trial that are looked at


def data_record(data: L.LightningDataModule) -> Mapping[str, Any] | None:
    """What `data` reads, by its content; or why that is not recorded. None on other ranks."""
    if rank_zero_only.rank != 0:
        return None
    name = type(data).__name__
    if not hasattr(data, "fingerprint"):
        return {"not_recorded": f"{name} has no fingerprint()"}
    content = data.fingerprint()
    if not isinstance(content, Mapping) or not {"sha256", "path"} <= content.keys():
        raise LabError(
            f"{name}.fingerprint() gave {content!r}; expected a dict with sha256 and path. "
            "For a folder of files: class Data(FolderFingerprint, L.LightningDataModule)"
        )
    return content


def print_data_change(run_dir: Path, now: Mapping[str, Any] | None) -> None:
    """Prints one line when the newest run of the trial on the same file had another content in it.

    Also when nobody can tell, because the data have no fingerprint.

    Args:
        run_dir: directory of the run that begins, next to those of the trial's other runs.
        now: as `data_record` gives it.
    """
    if now is None:
        return
    if "sha256" not in now:
        print(
            f"lab: which data this run reads is not recorded: {now.get('not_recorded')}. "
            "See: lab docs data",
            file=sys.stderr,
        )
        return
    run_dir, before = newest_fingerprint(run_dir.parent, now["path"])
    if before and before["sha256"] != now["sha256"]:
        print(
            f"lab: the data file changed since run {run_dir.name}: {now['path']} had "
            f"sha256 {before['sha256'][:12]}… then, {now['sha256'][:12]}… now",
            file=sys.stderr,
        )


def newest_fingerprint(trial_dir: Path, path: str) -> tuple[Path, Mapping[str, Any] | None]:
    """The newest run that read the data at `path`, and what they were; None without such a run."""
    run_dirs = sorted(trial_dir.glob("*"), reverse=True)  # their names begin with the time
    for run_dir in islice(run_dirs, N_EARLIER):
        for attempt in reversed(read_attempts(run_dir)):
            data = attempt.start.get("data") or {}
            if "sha256" in data and data.get("path") == path:
                return run_dir, data
    return trial_dir, None
