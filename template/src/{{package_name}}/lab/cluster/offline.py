# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Nodes without internet: `lab prefetch` fetches what they need, on the login node; `lab sync` uploads what they leave."""

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
from ..record.index import run_directories
from ..record.status import status_of
from .jobs import job_state_of
from .plan import OFFLINE


def prefetch_command(project: Project, args: list[str]) -> None:
    """Builds everything and trains one batch with the network, so that caches fill, then once more without it.

    Raises:
        Failed: the second time still wants the network; what it wanted is told.
    """
    parser = SettingsParser(
        "lab prefetch", "Fetches what trial=NAME needs on nodes without internet, and proves it."
    )
    command = [
        sys.executable,
        "-m",
        f"{project.package}.lab",
        "check",
        *parser.read(args).overrides,
    ]
    switches = dict(word.split("=") for word in OFFLINE)
    online = {key: value for key, value in os.environ.items() if key not in switches}
    online["PYTHONPATH"] = os.pathsep.join(
        [str(project.source.parent), os.environ.get("PYTHONPATH", "")]
    )
    if code := subprocess.run(command, env=online, cwd=project.root).returncode:
        raise Failed(f"lab check fails here, with the network (code {code}); mend that first.")
    cut = ["unshare", "--net", *(["--map-root-user"] if os.geteuid() else [])]
    if (
        not shutil.which("unshare")
        or subprocess.run([*cut, "true"], capture_output=True).returncode
    ):
        cut = []
    offline = {"env": online | switches, "cwd": project.root, "capture_output": True, "text": True}
    done = subprocess.run([*cut, *command], **offline)
    if done.returncode:
        raise Failed(
            f"without the network it fails, so a node could not run it:\n{done.stderr.strip()}"
        )
    print(
        f"everything is there (tried {'without any network' if cut else 'with the offline switches only'})"
    )


def sync_command(project: Project, args: list[str]) -> int:
    """Uploads offline W&B runs; those that are still running, and those uploaded before, are left alone."""
    parser = argparse.ArgumentParser(prog="lab sync", description=sync_command.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    dry_run = parser.parse_args(args).dry_run
    wandb = shutil.which(
        "wandb", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    if wandb is None and not dry_run:
        raise LabError("the wandb command is not installed: pip install wandb")
    codes = [0]
    for folder in offline_runs(project):
        print(folder, flush=True)
        if not dry_run:
            files = list(folder.glob("*.wandb"))
            codes.append(subprocess.run([wandb, "sync", str(folder)]).returncode)
            for file in files if codes[-1] == 0 else ():
                file.with_name(f"{file.name}.synced").touch()
    return int(any(codes))


def offline_runs(project: Project) -> list[Path]:
    """Directories of offline W&B runs that have ended and were not uploaded, oldest first."""
    scheduler, found = job_state_of(), []
    for directory in map(Path, run_directories(project.paths["runs"])):
        folders = [file.parent for file in directory.glob("wandb/offline-run-*/*.wandb")]
        waiting = [folder for folder in folders if not any(folder.glob("*.wandb.synced"))]
        if waiting and status_of(directory, scheduler) not in ("running", "queued"):
            found += waiting
    return sorted(found, key=lambda folder: folder.name)
