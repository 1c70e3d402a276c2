# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Notices that the data file changed since the trial's previous run."""

from __future__ import annotations

import sys
from pathlib import Path

from ..hdf5.checksum import Fingerprint
from ..record.attempt_files import read_attempts


def print_data_change(run_dir: Path, now: Fingerprint | None) -> None:
    """Prints one line when the newest record of the trial that names its data names other data.

    Args:
        run_dir: directory of the run that begins, next to those of the trial's other runs.
        now: what the data file is now; None, on all ranks but the first, prints nothing.
    """
    if now is None:
        return
    run_dir, before = newest_fingerprint(run_dir.parent)
    if before and before["sha256"] != now["sha256"]:
        print(
            f"lab: the data file changed since run {run_dir.name}: {now['path']} had "
            f"sha256 {before['sha256'][:12]}… then, {now['sha256'][:12]}… now",
            file=sys.stderr,
        )


def newest_fingerprint(trial_dir: Path) -> tuple[Path, Fingerprint | None]:
    """The newest run whose record names its data, and what they were; None without such a run."""
    run_dirs = sorted(trial_dir.glob("*"), reverse=True)  # their names begin with the time
    for run_dir in run_dirs:
        for attempt in reversed(read_attempts(run_dir)):
            data = attempt.start.get("data")
            if data:
                return run_dir, data
    return trial_dir, None
