"""Loads a trained model from a run, also by Lightning's `load_from_checkpoint`.

Checkpoints leave out what `self.save_hyperparameters()` has kept besides plain values, such as a network or
a partial. It is built again from the configuration of the run.
"""

from __future__ import annotations

import atexit
import io
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import lightning.pytorch as L
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn

from ...errors import LabError
from ...hdf5.read.datamodule import STATISTICS, H5DataModule
from ...project import Project
from ...record.freeze.frozen import unpack_code
from ...record.read.directory_weights import read_weights
from ...record.read.find import find_run
from ...record.read.rows import RUN_ID
from ...record.read.run import Run, run_roots
from ...record.read.status import weights_of_numbers
from ...record.reproduce.today import config_of_today, print_difference, require_own_code
from ...record.reproduce.weight_tensors import LEFT_OUT, read_whole_weights, with_left_out
from ...record.write.weights_place import refuse_other_weights
from ..checkpoints.checkpoint import NOT_IN_FILE
from ..checkpoints.in_parts import META, read_checkpoint
from ..checkpoints.resume_point import refuse_damaged
from ..parts.build import build_task, error_to_show

OF_PROJECT = ("model", "optimizer", "schedule")  # sections that a task is given as arguments


class LoadFromCheckpoint:
    """Stands for Lightning's `load_from_checkpoint`: adds the arguments that the file does not hold.

    Args:
        original: Lightning's class method, as the class holds it.
    """

    def __init__(self, original: Any) -> None:
        self.original = original

    def __get__(self, instance: Any, kind: Any) -> Callable[..., Any]:
        load = self.original.__get__(instance, kind)

        @wraps(load)
        def load_with_arguments(checkpoint_path: Any, *args: Any, **kwargs: Any) -> Any:
            further = arguments_not_in_file(kind, checkpoint_path, kwargs)
            if isinstance(checkpoint_path, str | Path) and Path(checkpoint_path).exists():
                checkpoint_path = as_file(Path(checkpoint_path))
            return load(checkpoint_path, *args, **(further | kwargs))

        return load_with_arguments


def arguments_not_in_file(
    kind: Any, checkpoint_path: Any, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a class that a checkpoint of labrig does not hold as they were.

    Args:
        kind: a LightningModule or LightningDataModule.
        given: arguments that need not be made.
    """
    if not isinstance(checkpoint_path, str | Path) or not Path(checkpoint_path).exists():
        return {}
    is_directory = Path(checkpoint_path).is_dir()
    file = Path(checkpoint_path, META) if is_directory else checkpoint_path
    content = head_of(Path(file))
    key = kind.CHECKPOINT_HYPER_PARAMS_KEY
    facts = content.get(NOT_IN_FILE, {}).get(key)
    if facts is None:
        return {}
    values = content[key]
    if facts["is_config"]:
        name = content.get(kind.CHECKPOINT_HYPER_PARAMS_NAME)
        return {name: OmegaConf.create(values)} if name else {}
    arguments = {
        name: OmegaConf.create(values[name]) for name in facts["configs"] if name in values
    }
    left_out = [name for name in facts["left_out"] if name not in given]
    if left_out:
        arguments |= build_arguments(sections_of(kind, Path(checkpoint_path), left_out))
    return arguments


def as_file(checkpoint: Path) -> Path | io.BytesIO:
    """A checkpoint as one whole file, if need be in memory, with the weights that were tested."""
    if checkpoint.is_dir():
        content = read_checkpoint(checkpoint) | {"state_dict": read_weights(checkpoint)}
    else:
        content = head_of(checkpoint)
        if LEFT_OUT not in content:
            return checkpoint
        content = with_left_out(content, checkpoint)
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


def head_of(file: Path) -> dict[str, Any]:
    """The content of a file, whose tensors are read when they are used; {} of another program's."""
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, OSError, RuntimeError, ValueError):
        return {}


def build_arguments(sections: DictConfig) -> dict[str, Any]:
    """The objects of sections, by their names."""
    try:
        return instantiate(sections, _convert_="all")
    except InstantiationException as error:
        shown = error_to_show(error, "load_from_checkpoint", ", ".join(sections))
    raise shown


def sections_of(kind: Any, checkpoint_path: Path, names: list[str]) -> DictConfig:
    """The sections of the configuration that build the arguments `names`."""
    run = run_of(checkpoint_path)
    config: Any = OmegaConf.create(config_of_today(run, Project.of_notebook())) if run else {}
    sections = {}
    if issubclass(kind, L.LightningDataModule):
        sections |= config.get("data") or {}
    else:
        sections |= {name: config[name] for name in OF_PROJECT if config.get(name)}
        sections |= config.get("task") or {}
    missing = [name for name in names if name not in sections]
    if missing:
        arguments = ", ".join(f"{name}=..." for name in missing)
        why = f"{run.id} has no section for it" if run else "it lies in no directory of a run"
        raise LabError(
            f"{checkpoint_path} leaves out {', '.join(missing)}, and {why}. "
            f"Give it: {kind.__name__}.load_from_checkpoint({checkpoint_path.name!r}, {arguments})"
        )
    return DictConfig({name: sections[name] for name in names})


def run_of(checkpoint_path: Path) -> Run | None:
    """The run whose checkpoint it is: the directory around it, or the run whose id is in its path."""
    for folder in checkpoint_path.absolute().parents:
        if (folder / "run.json").is_file():
            return Run.open(folder)
        if RUN_ID.fullmatch(folder.name):
            return find_run(run_roots(Project.of_notebook()), folder.name)
    return None


@cache  # once in a process
def complete_load_from_checkpoint() -> None:
    """From now on `load_from_checkpoint` of every class takes checkpoints of labrig too."""
    kinds: tuple[Any, ...] = (L.LightningModule, L.LightningDataModule)
    for kind in kinds:
        kind.load_from_checkpoint = LoadFromCheckpoint(vars(kind)["load_from_checkpoint"])


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
    saved = saved_statistics(run, checkpoint)
    if not set(data.standardize) <= set(saved):
        raise LabError(
            f"data.standardize names {[*data.standardize]}, of which the checkpoint {checkpoint} of "
            f"{run.id} holds no statistics: the run did not standardise them. Write: data.standardize=null"
        )
    data.load_state_dict({STATISTICS: saved})


def saved_statistics(run: Run, checkpoint: str) -> dict[str, dict[str, torch.Tensor]]:
    """The statistics by which a run standardised its data, by field; {} where it did not."""
    content = head_of(run.checkpoints / f"{checkpoint}.ckpt")
    states = [each for each in content.values() if isinstance(each, dict) and STATISTICS in each]
    return states[0][STATISTICS] if states else {}
