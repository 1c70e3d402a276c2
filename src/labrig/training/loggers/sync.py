"""`lab sync`: uploads what runs could not send while they ran."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ...command_parser import CommandParser
from ...config.recorded import read_recorded
from ...config.resolve import load_variables, resolve
from ...errors import LabError, require_package
from ...machine.network import is_reachable
from ...machine.secrets import hide_tokens
from ...project import Project
from ...record.files.atomic import read_advisory
from ...record.files.schema import SummaryRecord
from ...record.read.rows import run_directories
from ...record.read.run import Run, run_roots
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
    """Sends the rest of a run; prints why it cannot, and gives False."""
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
    """
    if not can_upload():
        return False
    *earlier, newest = folders
    subprocess.run([require_wandb(), "sync", str(newest)])
    # Its exit code is 0 after most failures, too.
    if not any(newest.glob("*.wandb.synced")):
        return False
    mark_uploaded(earlier)
    return True


def can_upload() -> bool:
    """Whether W&B has a key and answers; otherwise a line says what is missing."""
    if not has_wandb_key():
        print("lab: W&B has no key: wandb login, or WANDB_API_KEY=... in .env", file=sys.stderr)
        return False
    # W&B itself would wait for a network for ever.
    if not is_reachable(wandb_url()):
        print(f"lab: {wandb_url()} does not answer, so nothing was uploaded", file=sys.stderr)
        return False
    return True


def require_wandb() -> str:
    """The wandb command of this environment, or else of the PATH."""
    environment = Path(sys.executable).parent
    path = f"{environment}{os.pathsep}{os.environ.get('PATH', '')}"
    command = shutil.which("wandb", path=path)
    if command is None:
        raise LabError("the wandb command is not installed: make add PACKAGE=wandb")
    return command


WATCH_S = 60  # between two looks at the runs


class LiveUploads:
    """W&B's own processes, each of which uploads the directory of a run that goes on."""

    def __init__(self) -> None:
        self.processes: dict[Path, subprocess.Popen] = {}

    def follow(self, waiting: list[list[Path]]) -> None:
        """Begins to upload the newest directory of each run, and ends what is left of others.

        A process whose run was killed would wait for ever; `upload_ended` sends the rest of that run.
        """
        newest = {folders[-1]: folders[:-1] for folders in waiting}
        for folder in [*self.processes]:
            if self.processes[folder].poll() is not None or folder not in newest:
                self.end(self.processes.pop(folder))
        new = newest.keys() - self.processes.keys()
        if not new or not can_upload():
            return
        for folder in sorted(new):
            print(f"{folder} (live)", flush=True)
            mark_uploaded(newest[folder])  # their upload would replace its rows
            command = [require_wandb(), "beta", "sync", "--live", "--yes", str(folder)]
            self.processes[folder] = subprocess.Popen(command)

    def end(self, process: subprocess.Popen) -> None:
        process.terminate()
        process.wait()


def require_live() -> None:
    """Makes sure that the installed W&B uploads runs that go on."""
    done = subprocess.run(
        [require_wandb(), "beta", "sync", "--help"], capture_output=True, text=True
    )
    if "--live" not in done.stdout:
        raise LabError(
            "this version of W&B uploads no run that goes on: make add PACKAGE='wandb>=0.23'"
        )


def watch(project: Project) -> None:
    """Uploads the runs that go on, and what has ended, until Ctrl-C."""
    require_live()
    live = LiveUploads()
    try:
        while True:
            job_state = job_state_of()
            run_dirs = all_run_dirs(project)
            waiting = {each: waiting_wandb(each) for each in run_dirs}
            live.follow(
                [
                    folders
                    for run_dir, folders in waiting.items()
                    if folders and status_of(run_dir, job_state) in UNENDED
                ]
            )
            upload_ended(project)
            time.sleep(WATCH_S)
    finally:
        for process in live.processes.values():
            live.end(process)


def all_run_dirs(project: Project) -> list[Path]:
    """The directories of all runs, the oldest first."""
    return sorted(map(Path, run_directories(*run_roots(project))), key=lambda path: path.name)


def sync_command(project: Project, args: list[str]) -> int:
    """Uploads to W&B and MLflow."""
    description = "Uploads to W&B and MLflow the runs that have ended and were not uploaded before."
    parser = CommandParser(prog="lab sync", description=description)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    how.add_argument(
        "--watch",
        action="store_true",
        help="on a login node, until Ctrl-C: to W&B also the curves of runs that go on",
    )
    options = parser.parse_args(args)
    load_variables(project)
    if options.watch:
        watch(project)
    return int(upload_ended(project, options.dry_run))


def upload_ended(project: Project, dry_run: bool = False) -> bool:
    """Uploads what has ended; whether something of it failed."""
    failed = False
    job_state = job_state_of()
    for run_dir in all_run_dirs(project):
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
    return failed
