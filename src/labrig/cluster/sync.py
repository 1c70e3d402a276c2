"""`lab sync`: uploads what runs could not send while they ran."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..config.resolve import load_variables
from ..project import Project
from ..record.index import run_directories
from ..record.roots import run_roots
from ..record.status import UNENDED, status_of
from .job_states import job_state_of
from .sync_mlflow import upload_mlflow, waits_for_mlflow
from .sync_wandb import upload_wandb, waiting_wandb


def sync_command(project: Project, args: list[str]) -> int:
    """Uploads to W&B and MLflow.

    Raises:
        LabError: the package of a tracker is not installed.
    """
    description = "Uploads to W&B and MLflow the runs that have ended and were not uploaded before."
    parser = argparse.ArgumentParser(prog="lab sync", description=description)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    dry_run = parser.parse_args(args).dry_run
    load_variables(project)
    failed = False
    job_state = job_state_of()
    run_dirs = sorted(map(Path, run_directories(*run_roots(project))), key=lambda path: path.name)
    for run_dir in run_dirs:
        folders = waiting_wandb(run_dir)
        to_mlflow = waits_for_mlflow(run_dir)
        if not folders and not to_mlflow:
            continue
        if status_of(run_dir, job_state) in UNENDED:
            continue
        if folders:
            print(folders[-1], flush=True)
            failed |= not dry_run and not upload_wandb(folders)
        if to_mlflow:
            print(f"{run_dir} to MLflow", flush=True)
            failed |= not dry_run and not upload_mlflow(run_dir)
    return int(failed)
