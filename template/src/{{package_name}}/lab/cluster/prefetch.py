# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab prefetch` before, and `lab sync` after: what nodes without internet need from the login node, and give back to it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..config.overrides import SettingsParser
from ..errors import Failed, LabError
from ..project import Project
from ..record.attempt import status
from ..record.rows import run_directories
from .script import OFFLINE
from .status import asker

ONLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "UV_OFFLINE")


def prefetch_command(project: Project, args: list[str]) -> int:
    """Builds everything and trains one batch with the network, so that caches fill, then once more without it.

    Raises:
        Failed: the second time still wants the network; what it wanted is told.
    """
    parser = SettingsParser("lab prefetch", "Fetches what trial=NAME needs on nodes without internet, and proves it.")
    overrides = parser.read(args).overrides
    command = [sys.executable, "-m", f"{project.package}.lab", "check", *overrides]
    source = {"PYTHONPATH": os.pathsep.join([str(project.source.parent), os.environ.get("PYTHONPATH", "")])}
    online = {key: value for key, value in os.environ.items() if key not in ONLINE} | source
    if code := subprocess.run(command, env=online, cwd=project.root).returncode:
        raise Failed(f"lab check fails here, with the network (code {code}); mend that first.")
    offline = online | dict(word.split("=") for word in OFFLINE)
    cut = ["unshare", "--net", *(["--map-root-user"] if os.geteuid() else [])]
    can_cut = bool(shutil.which("unshare")) and subprocess.run([*cut, "true"], capture_output=True).returncode == 0
    done = subprocess.run(
        [*(cut if can_cut else []), *command], env=offline, cwd=project.root, capture_output=True, text=True
    )
    if done.returncode:
        raise Failed(f"without the network it fails, so a node could not run it:\n{done.stderr.strip()}")
    print(
        "everything is there"
        + (" (tried without any network)" if can_cut else " (tried with the offline switches only)")
    )
    return 0


def sync_command(project: Project, args: list[str]) -> int:
    """Uploads offline W&B runs; those that are still running, and those uploaded before, are left alone."""
    parser = argparse.ArgumentParser(prog="lab sync", description=sync_command.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    options = parser.parse_args(args)
    wandb = shutil.which("wandb", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if wandb is None and not options.dry_run:
        raise LabError("the wandb command is not installed: pip install wandb")
    failed = 0
    for folder in offline_runs(project):
        print(folder, flush=True)
        if not options.dry_run:
            marks = [*folder.glob("*.wandb")]
            code = subprocess.run([wandb, "sync", str(folder)]).returncode
            failed += int(code != 0)
            if code == 0:
                for file in marks:
                    file.with_name(f"{file.name}.synced").touch()
    return int(failed > 0)


def offline_runs(project: Project) -> list[Path]:
    """Directories of offline W&B runs that have ended and were not uploaded, oldest first."""
    ask, found = asker(project), []
    for directory in run_directories(project.paths["runs"]):
        folders = sorted(Path(directory).glob("wandb/offline-run-*"))
        waiting = [
            folder for folder in folders if any(folder.glob("*.wandb")) and not any(folder.glob("*.wandb.synced"))
        ]
        if waiting and status(Path(directory), ask) not in ("running", "queued"):
            found += waiting
    return sorted(found, key=lambda folder: folder.name)
