# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Uploads offline W&B runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import LabError


def waiting_wandb(run_dir: Path) -> list[Path]:
    """The directories of a run's offline W&B runs that were not uploaded, oldest first."""
    folders = {file.parent for file in run_dir.glob("wandb/offline-run-*/*.wandb")}
    waiting = [folder for folder in folders if not any(folder.glob("*.wandb.synced"))]
    return sorted(waiting, key=lambda folder: folder.name)


def upload_wandb(folders: list[Path]) -> bool:
    """Uploads the newest directory of a run, which holds the rows of the others; marks all.

    Returns: False when the upload fails; then none is marked.

    Raises:
        LabError: the command `wandb` is not installed.
    """
    wandb = find_wandb()
    if wandb is None:
        raise LabError("the wandb command is not installed: make add PACKAGE=wandb")
    if subprocess.run([wandb, "sync", str(folders[-1])]).returncode:
        return False
    for folder in folders:
        for file in folder.glob("*.wandb"):
            file.with_name(f"{file.name}.synced").touch()
    return True


def find_wandb() -> str | None:
    """The wandb command of this environment, or else of the PATH."""
    environment = Path(sys.executable).parent
    return shutil.which("wandb", path=f"{environment}{os.pathsep}{os.environ.get('PATH', '')}")
