"""Leaves the frozen weights of `init_from` out of the checkpoints; weight_tensors.py puts them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig
from torch import Tensor

from ...errors import LabError
from ...project import this_project
from ...record.reproduce.weight_tensors import LEFT_OUT, WEIGHTS, LeftOut, read_tensors
from ...record.write.initial_weights import resolve_weights
from ..watch.print_line import print_line
from .initialise import match_tensors, prefix_of


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
