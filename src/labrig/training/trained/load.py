"""Loads a trained model from a run."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import lightning.pytorch as L
from omegaconf import OmegaConf
from torch import nn

from ...errors import LabError
from ...hdf5.read.datamodule import STATISTICS, H5DataModule
from ...project import Project
from ...record.freeze.frozen import unpack_code
from ...record.read.find import find_run
from ...record.read.roots import run_roots
from ...record.read.run import Run
from ...record.read.status import weights_of_numbers
from ...record.reproduce.today import config_of_today, print_difference, require_own_code
from ...record.reproduce.weight_tensors import read_whole_weights
from ...record.write.own_weights import refuse_other_weights
from ..checkpoints.resume_point import refuse_damaged
from ..parts.build import build_task
from .load_from_checkpoint import complete_load_from_checkpoint, head_of

complete_load_from_checkpoint()  # for whoever calls it in a notebook instead of `load`


def load(
    run: str | Path = "@last", checkpoint: str | None = None, *, frozen: bool = False
) -> nn.Module:
    """The trained model of a run, on the CPU, in evaluation mode.

    Args:
        run: id or its unique beginning, directory, tag, `@last`, `@last~1`, `@best:val/loss`.
        checkpoint: "last", "best" or "previous"; None for that of the recorded test metrics, which
            is the last one of the attempt that finished.
        frozen: with the frozen code of the run instead of today's, as where its package had another name.
            What that code imports later, inside a function, comes from today's.

    Returns:
        The `model` of the run's task; the task itself (a LightningModule) when it has none.

    Raises:
        LabError: no such run or checkpoint, weights that today's code does not fit, or a trial that
            this project no longer has.
    """
    project = Project.of_notebook()
    source = find_run(run_roots(project), str(run))
    if frozen:
        task = build_frozen_task(source, project)
    else:
        require_own_code(source, project)
        config: Any = OmegaConf.create(config_of_today(source, project))
        task = build_task(config)
        print_difference(source, project)
    load_weights(
        task, source, checkpoint or weights_of_numbers(source.dir, source.checkpoints).stem
    )
    model = getattr(task, "model", task)
    return model.eval()


def build_frozen_task(run: Run, project: Project) -> L.LightningModule:
    """The task of a run from its frozen code, which lies in a temporary directory until this process ends.

    The modules of today's code are what they were afterwards.
    """
    directory = Path(tempfile.mkdtemp(prefix="lab-frozen-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    code = run.record["code"]
    unpack_code(code, project.root, run.dir, directory / "code")
    config: Any = OmegaConf.load(run.dir / "config.yaml")
    package = config.get("package", project.package)
    today = pop_modules(package)
    sys.path.insert(0, str(directory / "code" / code["prefix"] / "src"))
    try:
        return build_task(config)
    finally:
        del sys.path[0]
        pop_modules(package)
        sys.modules.update(today)


def pop_modules(package: str) -> dict[str, ModuleType]:
    """The imported modules of a package, which Python imports again from now on."""
    names = [name for name in sys.modules if name.partition(".")[0] == package]
    return {name: sys.modules.pop(name) for name in names}


def load_weights(task: L.LightningModule, run: Run, checkpoint: str) -> None:
    """Loads the weights of `run.checkpoints/<checkpoint>.ckpt` into a task, in place."""
    file = run.checkpoints / f"{checkpoint}.ckpt"
    if not file.exists():
        names = sorted(path.stem for path in run.checkpoints.glob("*.ckpt"))
        raise LabError(
            f"run {run.id} has no checkpoint {checkpoint!r}. "
            f"It has: {', '.join(names) or 'none, because it stopped before its first'}"
        )
    refuse_damaged(file)
    refuse_other_weights(file)
    weights = read_whole_weights(file)
    try:
        task.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise LabError(
            f"{file} does not fit today's code of this trial: {reason}\n"
            f"With the code of the run: load({run.id!r}, frozen=True)"
        ) from error


def load_statistics(data: L.LightningDataModule, run: Run, checkpoint: str) -> None:
    """Gives data the statistics by which the run standardised its own (data.standardize)."""
    if not isinstance(data, H5DataModule) or not data.standardize:
        return
    content = head_of(run.checkpoints / f"{checkpoint}.ckpt")
    states = [
        state for state in content.values() if isinstance(state, dict) and STATISTICS in state
    ]
    if not states or not set(data.standardize) <= set(states[0][STATISTICS]):
        raise LabError(
            f"data.standardize names {[*data.standardize]}, of which the checkpoint {checkpoint} of "
            f"{run.id} holds no statistics: the run did not standardise them. Write: data.standardize=null"
        )
    data.load_state_dict(states[0])
