# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""From configuration to objects, with `_target_` and its arguments as Hydra does it: data, task and callbacks; and from a
run to its model, in one line: `from <package>.lab import load; model = load("@last")`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn

from ..errors import LabError
from ..project import Project
from ..record.run import Run, find


def build(config: DictConfig, key: str, **extra: Any) -> Any:
    """`instantiate(config[key], **extra)`.

    Raises:
        LabError: naming key, target and reason, for a target that does not exist or an argument it does not take.
    """
    try:
        return instantiate(config[key], **extra)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, LabError):
            raise cause from None
        reason = str(cause or error).strip().splitlines()[0]
        if isinstance(cause, TypeError | ImportError | AttributeError | None):
            raise LabError(f"{key}: cannot build {config[key].get('_target_')}: {reason}") from error
        raise


def build_task(config: DictConfig) -> L.LightningModule:
    """The LightningModule of `task._target_`, given `model`, `optimizer` and `schedule` where its __init__ takes them."""
    target = config.task._target_
    try:
        taken = inspect.signature(get_class(target)).parameters
    except Exception as error:
        raise LabError(f"task._target_ is {target!r}, which cannot be imported: {error}") from error
    wanted = [name for name in ("model", "optimizer", "schedule") if name in taken]
    return build(config, "task", **{name: build(config, name) if config[name] else None for name in wanted})


def build_data(config: DictConfig) -> L.LightningDataModule:
    """The LightningDataModule of `data._target_`."""
    data = build(config, "data")
    if not isinstance(data, L.LightningDataModule):
        raise LabError(f"data._target_: {config.data._target_} is no LightningDataModule, but a {type(data).__name__}.")
    return data


def build_callbacks(config: DictConfig) -> list[L.Callback]:
    return [build(config.callbacks, name) for name in config.callbacks]


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
    found = find(Project.find().paths["runs"], str(run))
    task = build_task(OmegaConf.load(found.dir / "config.yaml"))
    load_weights(task, found, checkpoint)
    return getattr(task, "model", task).eval()


def load_weights(task: L.LightningModule, run: Run, checkpoint: str) -> None:
    """Loads a checkpoint's weights into a task; the file holds plain types only."""
    path = run.checkpoints / f"{checkpoint}.ckpt"
    if not path.is_file():
        there = ", ".join(sorted(p.stem for p in run.checkpoints.glob("*.ckpt"))) or "none, it stopped before its first"
        raise LabError(f"run {run.id} has no checkpoint {checkpoint!r}. It has: {there}")
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    try:
        task.load_state_dict(state)
    except RuntimeError as error:
        raise LabError(
            f"{path} does not fit today's code of this trial: {str(error).splitlines()[-1].strip()}\n"
            f"Get the code of the run: lab runs code {run.id}"
        ) from error
