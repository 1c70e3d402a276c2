"""Uploads offline W&B runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import LabError
from ..machine.network import is_reachable
from ..training.wandb_access import has_wandb_key, wandb_url


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
    if not has_wandb_key():
        print("lab: W&B has no key: wandb login, or WANDB_API_KEY=... in .env", file=sys.stderr)
        return False
    # W&B itself would wait for a network for ever.
    if not is_reachable(wandb_url()):
        print(f"lab: {wandb_url()} does not answer, so nothing was uploaded", file=sys.stderr)
        return False
    *earlier, newest = folders
    subprocess.run([wandb, "sync", str(newest)])
    # Its exit code is 0 after most failures, too.
    if not any(newest.glob("*.wandb.synced")):
        return False
    for folder in earlier:
        for file in folder.glob("*.wandb"):
            file.with_name(f"{file.name}.synced").touch()
    return True


def find_wandb() -> str | None:
    """The wandb command of this environment, or else of the PATH."""
    environment = Path(sys.executable).parent
    return shutil.which("wandb", path=f"{environment}{os.pathsep}{os.environ.get('PATH', '')}")
