"""`lab sync`: uploads what runs could not send while they ran."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ...config.recorded import read_recorded
from ...config.resolve import load_variables, resolve
from ...errors import LabError, require_package
from ...machine.network import is_reachable
from ...machine.secrets import hide_tokens
from ...project import Project
from ...record.files.atomic import read_advisory
from ...record.files.schema import SummaryRecord
from ...record.list.rows import run_directories
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ...record.read.status import UNENDED, job_state_of, status_of
from .mlflow_run import SENT, MlflowRun, mlflow_place
from .wandb_access import has_wandb_key, mark_uploaded, waiting_wandb, wandb_url

# Uploads to MLflow what it lacks of a run.


def waits_for_mlflow(run_dir: Path) -> bool:
    """Whether a run with `logger=mlflow` was not uploaded, or only a part of it."""
    file = run_dir / "config.yaml"
    if (run_dir / SENT).exists() or not file.exists():
        return False
    # Parsing the settings of each run would take long.
    text = file.read_text(encoding="utf-8", errors="replace")
    return "\n  mlflow:\n" in text and "tracking_uri" in text


def upload_mlflow(run_dir: Path) -> bool:
    """Sends the rest of a run; prints why it cannot, and gives False.

    Raises:
        LabError: MLflow is not installed.
    """
    require_package("mlflow", "lab sync")
    run = Run.open(run_dir)
    settings = resolve(read_recorded(run_dir / "config.yaml")).logger.mlflow
    summary = read_advisory(run_dir / "summary.json", SummaryRecord) or {}
    try:
        mlflow_run = MlflowRun(run, mlflow_place(dict(settings), run.runs))
        mlflow_run.end(summary.get("status", "failed"))
    # MLflow, its server and its database raise errors of many kinds.
    except Exception as error:
        reason = hide_tokens(str(error).partition("\n")[0])
        print(f"lab: {run.id} was not uploaded to MLflow: {reason}", file=sys.stderr)
        return False
    return True


# Uploads offline W&B runs.


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
    mark_uploaded(earlier)
    return True


def find_wandb() -> str | None:
    """The wandb command of this environment, or else of the PATH."""
    environment = Path(sys.executable).parent
    return shutil.which("wandb", path=f"{environment}{os.pathsep}{os.environ.get('PATH', '')}")


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
