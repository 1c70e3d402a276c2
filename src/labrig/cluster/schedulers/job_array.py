"""The runs of a job array share one script, and one pattern for the names of their logs."""

from __future__ import annotations

import os
from pathlib import Path


def link_array_logs(run_dirs: list[Path], first_index: int) -> None:
    """Links <first run>/array/<index>.log to the log of each run."""
    folder = run_dirs[0] / "array"
    folder.mkdir(exist_ok=True)  # of a try that broke off
    for index, run_dir in enumerate(run_dirs, start=first_index):
        log = os.path.relpath(run_dir / "job.log", folder)
        link = folder / f"{index}.log"
        link.unlink(missing_ok=True)
        link.symlink_to(log)


def run_dirs_of(script: Path) -> list[Path]:
    """The directories of the runs of a script, in the order of their indices."""
    links = (script.parent / "array").glob("*.log")
    ordered = sorted((link for link in links if link.stem.isdecimal()), key=lambda at: int(at.stem))
    return [log_of(script, int(link.stem)).parent for link in ordered] or [script.parent]


def log_of(script: Path, index: int) -> Path:
    """The log of the run that an index of an array means; of a single job its only one."""
    link = script.parent / "array" / f"{index}.log"
    if not link.is_symlink():
        return script.parent / "job.log"
    return Path(os.path.normpath(link.parent / os.readlink(link)))  # which need not exist yet
