"""Loads other weights into a task before its training begins: `init_from`."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig
from torch import Tensor

from ..errors import LabError, NotComparable
from ..machine.counted import counted
from ..machine.hub import PACKAGES
from ..project import this_project
from ..record.initial_weights import resolve_weights
from ..record.run import Run
from ..record.schema import InitialWeights
from .resume_point import whole_checkpoint

MODEL = "model."  # in a task, where its network is
MAX_SHOWN = 3  # names of tensors in a line
MAX_LINES = 20  # of tensors with another shape


@dataclass
class Match:
    """How the tensors of a file fit a task; lists are of names."""

    tensors: dict[str, Tensor] = field(default_factory=dict)  # to load, by the task's names
    missing: list[str] = field(default_factory=list)  # of the task
    unused: list[str] = field(default_factory=list)  # of the file
    misfits: dict[str, str] = field(default_factory=dict)  # both shapes, by the task's names


def load_initial_weights(task: L.LightningModule, config: DictConfig, run: Run) -> dict[str, Any]:
    """Loads `init_from` into a task, in place, unless the run continues from a checkpoint of its own.

    Returns:
        `init_from` for start.json; empty when nothing was loaded.

    Raises:
        LabError: the weights are gone, do not fit, or have names that the task does not know.
        NotComparable: they have changed since the run was recorded.
    """
    if config.get("init_from") is None or whole_checkpoint(run.checkpoints):
        return {}
    weights = resolve_weights(str(config.init_from), this_project())
    recorded = run.record.get("init_from") or {}
    if recorded.get("sha256") not in (None, weights["sha256"]):
        raise NotComparable(
            f"the weights {weights['source']} have changed since {run.id} was recorded: "
            f"sha256 {str(recorded['sha256'])[:12]} then, {str(weights['sha256'])[:12]} now. "
            "Start a new run."
        )
    return {"init_from": weights | start_from(task, weights, config.init)}


def check_initial_weights(task: L.LightningModule, config: DictConfig) -> None:
    """Loads `init_from` into a task, as far as its weights are there already.

    Raises:
        LabError: as `load_initial_weights`.
    """
    if config.get("init_from") is None:
        return
    weights = resolve_weights(str(config.init_from), this_project(), may_come=True)
    if weights["sha256"] is None:
        print(f"init_from: not checked, {weights['run']} has not ended", flush=True)
        return
    start_from(task, weights, config.init)


def start_from(
    task: L.LightningModule, weights: InitialWeights, init: DictConfig
) -> dict[str, Any]:
    """Loads weights into a task, in place, and prints what did not fit.

    Returns:
        The keys of InitialWeights that are known from now on.
    """
    match = load_file(task, Path(weights["path"]), init)
    counts = {"n_loaded": len(match.tensors), "n_tensors": len(task.state_dict())}
    if rank_zero_only.rank == 0:
        print(format_match(weights["source"], match, **counts), flush=True)
    names = {"missing": match.missing, "unused": match.unused, "skipped": list(match.misfits)}
    return counts | names


def load_file(task: L.LightningModule, path: Path, init: DictConfig) -> Match:
    """Loads the tensors of a file into a task, in place.

    Args:
        init: the section `init`.

    Raises:
        LabError: the file cannot be read, or does not fit.
    """
    file_tensors = read_tensors(path)
    task_tensors = task.state_dict()
    # A number in a YAML file is a beginning too.
    prefix = {str(key): None if to is None else str(to) for key, to in init.prefix.items()}
    match = match_tensors(file_tensors, task_tensors, prefix)
    if match.misfits and init.mismatch != "skip":
        misfits = [f"{name}: {shapes}" for name, shapes in match.misfits.items()]
        lines = "".join(f"  {line}\n" for line in misfits[:MAX_LINES])
        n_more = len(match.misfits) - MAX_LINES
        more = f"  and {n_more} more\n" if n_more > 0 else ""
        raise LabError(
            f"init_from: another shape here for {counted(len(match.misfits), 'tensor')} "
            f"of {path}:\n{lines}{more}To leave those as they are built: init.mismatch=skip"
        )
    if not match.tensors:
        raise LabError(
            f"init_from: no tensor of {path} has a name and shape of this task.\n"
            f"  there: {shorten(list(file_tensors))}\n"
            f"  here:  {shorten(list(task_tensors))}\n"
            "Say which beginnings of names belong together, such as: "
            "'init.prefix={encoder.: model.backbone.}'"
        )
    task.load_state_dict(match.tensors, strict=False)
    return match


def match_tensors(
    file_tensors: Mapping[str, Tensor],
    task_tensors: Mapping[str, Tensor],
    prefix: Mapping[str, str | None],
) -> Match:
    """Which tensors of a file belong to which of a task.

    Args:
        file_tensors: by name.
        task_tensors: by name.
        prefix: beginnings of names, in the file -> in the task; the longest that fits counts.

    Raises:
        LabError: two tensors of the file get one name.
    """
    match = Match()
    file_names: dict[str, str] = {}
    for file_name, tensor in file_tensors.items():
        task_name = name_in_task(file_name, task_tensors, prefix)
        if task_name is None:
            match.unused.append(file_name)
        elif task_name in file_names:
            raise LabError(
                f"init_from: {file_names[task_name]} and {file_name} would both become {task_name}. "
                "Change init.prefix."
            )
        elif tensor.shape != task_tensors[task_name].shape:
            shapes = f"{list(tensor.shape)} there, {list(task_tensors[task_name].shape)} here"
            match.misfits[task_name] = shapes
        else:
            match.tensors[task_name] = tensor
        if task_name is not None:
            file_names[task_name] = file_name
    match.missing = [name for name in task_tensors if name not in file_names]
    return match


def name_in_task(
    file_name: str, task_tensors: Mapping[str, Tensor], prefix: Mapping[str, str | None]
) -> str | None:
    """The task's name for a tensor of the file, also without `model.`; None when it has none."""
    beginnings = [beginning for beginning in prefix if file_name.startswith(beginning)]
    if beginnings:
        longest = max(beginnings, key=len)
        beginning_in_task = prefix[longest]
        if beginning_in_task is None:
            return None
        file_name = beginning_in_task + file_name.removeprefix(longest)
    names = (file_name, MODEL + file_name)
    return next((name for name in names if name in task_tensors), None)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, of a checkpoint, or of a saved state_dict, on the CPU.

    Raises:
        LabError: a package is missing, or the file holds something else.
    """
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    try:
        # Plain types only, so no code in the file can run.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise LabError(
            f"init_from: {path} cannot be read as weights: it is damaged, or holds more than "
            "tensors. Save the tensors alone: torch.save(model.state_dict(), FILE)"
        ) from error
    if isinstance(content, Mapping):
        content = content.get("state_dict", content)
    is_state = isinstance(content, Mapping) and all(
        isinstance(value, Tensor) for value in content.values()
    )
    if not is_state or not content:
        keys = f" with the keys {shorten(list(content))}" if isinstance(content, Mapping) else ""
        raise LabError(
            f"init_from: {path} holds a {type(content).__name__}{keys}; expected tensors by their "
            "names, alone or as `state_dict`"
        )
    return dict(content)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file.

    Raises:
        LabError: the package is missing, or the file is damaged.
    """
    if find_spec("safetensors") is None:
        raise LabError(
            "init_from: a .safetensors file needs a package that is not installed: "
            f'make add PACKAGE="{PACKAGES}"'
        )
    from safetensors import SafetensorError  # an optional package
    from safetensors.torch import load_file as load_safetensors

    try:
        return load_safetensors(path)
    except SafetensorError as error:
        raise LabError(
            f"init_from: {path} is no whole .safetensors file: {error}. Copy it again"
        ) from error


def format_match(source: str, match: Match, n_loaded: int, n_tensors: int) -> str:
    """What was loaded, and a line for each kind of tensor that was not."""
    lines = [f"starts from {source}: {n_loaded} of {n_tensors} tensors"]
    kinds = {
        "as built, not there": match.missing,
        "as built, another shape": list(match.misfits),
        "there, not used": match.unused,
    }
    lines += [f"  {kind}: {shorten(names)}" for kind, names in kinds.items() if names]
    return "\n".join(lines)


def shorten(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(map(str, names[:MAX_SHOWN])) + more
