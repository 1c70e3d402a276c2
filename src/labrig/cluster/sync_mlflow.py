"""Uploads to MLflow what it lacks of a run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from ..config.recorded import read_recorded
from ..config.resolve import resolve
from ..errors import LabError
from ..machine.secrets import hide_tokens
from ..record.atomic import read_json
from ..record.run import Run
from ..training.mlflow_run import SENT, MlflowRun, mlflow_place


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
    if importlib.util.find_spec("mlflow") is None:
        raise LabError("mlflow is not installed: make add PACKAGE=mlflow")
    run = Run.open(run_dir)
    settings = resolve(read_recorded(run_dir / "config.yaml")).logger.mlflow
    summary = read_json(run_dir / "summary.json") or {}
    try:
        mlflow_run = MlflowRun(run, mlflow_place(dict(settings), run.runs))
        mlflow_run.end(summary.get("status", "failed"))
    # MLflow, its server and its database raise errors of many kinds.
    except Exception as error:
        reason = hide_tokens(str(error).partition("\n")[0])
        print(f"lab: {run.id} was not uploaded to MLflow: {reason}", file=sys.stderr)
        return False
    return True
