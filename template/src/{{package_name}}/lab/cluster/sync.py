# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab sync`: uploads offline W&B runs."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import LabError
from ..project import Project
from ..record.index import run_directories
from ..record.roots import run_roots
from ..record.status import status_of
from .job_states import job_state_of


def sync_command(project: Project, args: list[str]) -> int:
    """Uploads offline W&B runs.

    Raises:
        LabError: the command `wandb` is not installed.
    """
    description = "Uploads offline W&B runs that have ended and were not uploaded before."
    parser = argparse.ArgumentParser(prog="lab sync", description=description)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    dry_run = parser.parse_args(args).dry_run
    wandb = find_wandb()
    if wandb is None and not dry_run:
        raise LabError("the wandb command is not installed: make add PACKAGE=wandb")
    failed = False
    for folder in offline_runs(project):
        print(folder, flush=True)
        if not dry_run and not upload(wandb, folder):
            failed = True
    return int(failed)


def find_wandb() -> str | None:
    """The wandb command of this environment, or else of the PATH."""
    environment = Path(sys.executable).parent
    return shutil.which("wandb", path=f"{environment}{os.pathsep}{os.environ.get('PATH', '')}")


def upload(wandb: str, folder: Path) -> bool:
    """Uploads one offline run, once: marks its files. False when the upload fails."""
    files = list(folder.glob("*.wandb"))
    code = subprocess.run([wandb, "sync", str(folder)]).returncode
    if code:
        return False
    for file in files:
        file.with_name(f"{file.name}.synced").touch()
    return True


def offline_runs(project: Project) -> list[Path]:
    """Directories of offline W&B runs that have ended and were not uploaded, oldest first."""
    job_state = job_state_of()
    folders = []
    for run_dir in map(Path, run_directories(*run_roots(project))):
        waiting = [
            file.parent
            for file in run_dir.glob("wandb/offline-run-*/*.wandb")
            if not any(file.parent.glob("*.wandb.synced"))
        ]
        if waiting and status_of(run_dir, job_state) not in ("running", "queued"):
            folders += waiting
    return sorted(folders, key=lambda folder: folder.name)
