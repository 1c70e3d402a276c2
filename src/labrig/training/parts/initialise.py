"""Loads other weights into a task before its training begins, and leaves frozen ones out of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig
from torch import Tensor
from torch.nn.parameter import is_lazy

from ...errors import LabError, NotComparable
from ...machine.text_formats import and_more, counted
from ...project import this_project
from ...record.files.schema import InitialWeights
from ...record.read.run import Run
from ...record.reproduce.weight_tensors import LEFT_OUT, MAX_SHOWN, WEIGHTS, LeftOut, read_tensors
from ...record.write.inputs import resolve_weights
from ..checkpoints.resume_point import refuse_damaged, whole_checkpoint
from ..watch.print_line import print_line

MODEL = "model."  # in a task, where its network is
MAX_LINES = 20  # of tensors with another shape


@dataclass
class Match:
    """How the tensors of a file fit a task; lists are of names."""

    tensors: dict[str, Tensor] = field(default_factory=dict)  # to load, by the task's names
    missing: list[str] = field(default_factory=list)  # of the task
    unused: list[str] = field(default_factory=list)  # of the file
    misfits: dict[str, str] = field(default_factory=dict)  # both shapes, by the task's names
    file_names: dict[str, str] = field(default_factory=dict)  # by the task's names


def load_initial_weights(task: L.LightningModule, config: DictConfig, run: Run) -> dict[str, Any]:
    """Loads `init_from` into a task, in place, unless the run continues from a checkpoint of its own.

    Returns:
        `init_from` for start.json; empty when nothing was loaded.
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
    """Compares names and shapes of `init_from` with a task, as far as its weights are there already.

    Of .safetensors files it reads the headers only, and loads nothing.
    """
    if config.get("init_from") is None:
        return
    weights = resolve_weights(str(config.init_from), this_project(), may_come=True, is_hashed=False)
    if weights["size_bytes"] is None:
        print(f"init_from: not checked, {weights['run']} has not ended", flush=True)
        return
    # A layer without a size gets one from the file.
    shapes_only = not any(is_lazy(tensor) for tensor in task.state_dict().values())
    start_from(task, weights, config.init, shapes_only)


def start_from(
    task: L.LightningModule, weights: InitialWeights, init: DictConfig, shapes_only: bool = False
) -> dict[str, Any]:
    """Loads weights into a task, in place, and prints what did not fit.

    Args:
        shapes_only: of what has headers these are compared, and nothing is loaded.

    Returns:
        The keys of InitialWeights that are known from now on.
    """
    match = load_file(task, Path(weights["path"]), init, shapes_only)
    counts = {"n_loaded": len(match.tensors), "n_tensors": len(task.state_dict())}
    if rank_zero_only.rank == 0:
        print(format_match(weights["source"], match, **counts), flush=True)
    names = {"missing": match.missing, "unused": match.unused, "skipped": list(match.misfits)}
    return counts | names


def load_file(
    task: L.LightningModule, path: Path, init: DictConfig, shapes_only: bool = False
) -> Match:
    """Loads the tensors of a file into a task, in place.

    Args:
        init: the section `init`.
        shapes_only: as for `start_from`.
    """
    if path.is_dir():
        refuse_damaged(path)
    file_tensors = read_tensors(path, shapes_only=shapes_only)
    task_tensors = task.state_dict()
    prefix = prefix_of(init)
    for beginning in prefix:
        if not any(name.startswith(beginning) for name in file_tensors):
            raise LabError(
                f"init.prefix: no tensor of {path} begins with {beginning!r}.\n"
                f"  there: {and_more(file_tensors, MAX_SHOWN)}\n"
                "Write the beginning of such a name, or leave it out"
            )
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
            f"  there: {and_more(file_tensors, MAX_SHOWN)}\n"
            f"  here:  {and_more(task_tensors, MAX_SHOWN)}\n"
            "Say which beginnings of names belong together, such as: "
            "'init.prefix={encoder.: model.backbone.}'"
        )
    if not any(tensor.is_meta for tensor in match.tensors.values()):
        task.load_state_dict(match.tensors, strict=False)
    return match


def prefix_of(init: DictConfig) -> dict[str, str | None]:
    """`init.prefix`; a number in a YAML file is a beginning too."""
    return {str(key): None if to is None else str(to) for key, to in init.prefix.items()}


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
    """
    match = Match()
    file_names = match.file_names
    task_names = {unwrapped(name): name for name in task_tensors} | {n: n for n in task_tensors}
    for file_name, tensor in file_tensors.items():
        task_name = name_in_task(file_name, task_names, prefix)
        if task_name is None:
            match.unused.append(file_name)
        elif task_name in file_names:
            raise LabError(
                f"init_from: {file_names[task_name]} and {file_name} would both become {task_name}. "
                "Change init.prefix."
            )
        elif is_lazy(task_tensors[task_name]):
            match.tensors[task_name] = tensor  # it takes the size of the file
        elif tensor.shape != task_tensors[task_name].shape:
            shapes = f"{list(tensor.shape)} there, {list(task_tensors[task_name].shape)} here"
            match.misfits[task_name] = shapes
        else:
            match.tensors[task_name] = tensor
        if task_name is not None:
            file_names[task_name] = file_name
    match.missing = [name for name in task_tensors if name not in file_names]
    return match


def unwrapped(task_name: str) -> str:
    """The name of a tensor before PEFT put its adapters around the network and its layers."""
    return task_name.replace("base_model.model.", "").replace(".base_layer.", ".")


def name_in_task(
    file_name: str, task_names: Mapping[str, str], prefix: Mapping[str, str | None]
) -> str | None:
    """The task's name for a tensor of the file, also without `model.`; None when it has none.

    Args:
        task_names: what a tensor may be called -> its name in the task.
    """
    beginnings = [beginning for beginning in prefix if file_name.startswith(beginning)]
    if beginnings:
        longest = max(beginnings, key=len)
        beginning_in_task = prefix[longest]
        if beginning_in_task is None:
            return None
        file_name = beginning_in_task + file_name.removeprefix(longest)
    names = (file_name, MODEL + file_name)
    return next((task_names[name] for name in names if name in task_names), None)


def format_match(source: str, match: Match, n_loaded: int, n_tensors: int) -> str:
    """What was loaded, and a line for each kind of tensor that was not."""
    lines = [f"starts from {source}: {n_loaded} of {n_tensors} tensors"]
    kinds = {
        "as built, not there": match.missing,
        "as built, another shape": list(match.misfits),
        "there, not used": match.unused,
    }
    lines += [f"  {kind}: {and_more(names, MAX_SHOWN)}" for kind, names in kinds.items() if names]
    return "\n".join(lines)


class LeaveOutInitial(L.Callback):
    """Takes what a checkpoint would hold of `init_from` out of it, as long as each byte is the same.

    Args:
        config: of the run.
    """

    def __init__(self, config: DictConfig) -> None:
        if config.get("init_from") is None or config.checkpoint.sharded:
            raise LabError(
                "checkpoint.leave_out_initial=true needs init_from=..., and checkpoint.sharded=false"
            )
        self.config = config
        self.initial: dict[str, Tensor] = {}  # of the file, by the task's names
        self.left_out: LeftOut = {"weights": {}, "names": {}}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Finds the frozen parameters in the file; one that is tied to such a one goes along."""
        weights = resolve_weights(str(self.config.init_from), this_project())
        state = pl_module.state_dict()
        prefix = prefix_of(self.config.init)
        match = match_tensors(read_tensors(Path(weights["path"])), state, prefix)
        parameters = dict(pl_module.named_parameters(remove_duplicate=False))
        places = {parameters[name].data_ptr(): name for name in match.tensors if name in parameters}
        names = {}
        for name, parameter in parameters.items():
            twin = name if name in match.tensors else places.get(parameter.data_ptr())
            if twin and not parameter.requires_grad:
                self.initial[name] = match.tensors[twin]
                names[name] = match.file_names[twin]
        if not names:
            raise LabError(
                "checkpoint.leave_out_initial=true finds nothing to leave out: no parameter that "
                "init_from has is frozen. Freeze them: parameter.requires_grad_(False)"
            )
        self.left_out = {"weights": weights, "names": names}
        n_bytes = sum(tensor.nbytes for tensor in self.initial.values())
        print_line(
            trainer,
            f"checkpoints leave out {len(names)} tensors ({n_bytes / 1e9:.3g} GB), "
            f"which are read from {weights['source']} again",
        )

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        state = checkpoint.get(WEIGHTS, {})
        names = [name for name in self.initial if is_same(state.get(name), self.initial[name])]
        checkpoint[WEIGHTS] = {name: state[name] for name in state if name not in names}
        of_file = {name: self.left_out["names"][name] for name in names}
        checkpoint[LEFT_OUT] = {"weights": self.left_out["weights"], "names": of_file}


def is_same(tensor: Tensor | None, initial: Tensor) -> bool:
    """Whether a tensor is, in its own type, what the file has."""
    return tensor is not None and torch.equal(tensor.cpu(), initial.to(tensor.dtype))
