# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Loads a trained task from a run or a checkpoint."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as L
import torch
from omegaconf import OmegaConf
from torch import nn

from ..errors import LabError
from ..project import Project
from ..record.find import find_run
from ..record.run import Run
from .build import build_task


def load(run: str | Path = "@last", checkpoint: str = "last") -> nn.Module:
    """The trained model of a run, on the CPU, in evaluation mode.

    Args:
        run: id or its unique beginning, directory, tag, `@last`, `@best:val/loss`.
        checkpoint: "last" (whose test metrics the record holds), "best" or "previous".

    Returns:
        The `model` of the run's task; the task itself (a LightningModule) when it has none.

    Raises:
        LabError: no such run or checkpoint, or weights that today's code does not fit.
    """
    found = find_run(Project.find().paths["runs"], str(run))
    task = build_task(OmegaConf.load(found.dir / "config.yaml"))
    load_weights(task, found, checkpoint)
    return getattr(task, "model", task).eval()


def load_weights(task: L.LightningModule, run: Run, checkpoint: str) -> None:
    """Loads a checkpoint's weights into a task; the file holds plain types only."""
    path = run.checkpoints / f"{checkpoint}.ckpt"
    if not path.is_file():
        there = (
            ", ".join(sorted(p.stem for p in run.checkpoints.glob("*.ckpt")))
            or "none, it stopped before its first"
        )
        raise LabError(f"run {run.id} has no checkpoint {checkpoint!r}. It has: {there}")
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    try:
        task.load_state_dict(state)
    except RuntimeError as error:
        raise LabError(
            f"{path} does not fit today's code of this trial: {str(error).splitlines()[-1].strip()}\n"
            f"Get the code of the run: lab runs code {run.id}"
        ) from error
