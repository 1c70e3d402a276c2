"""What changes in a training and no checkpoint holds: plain attributes, buffers that are not
persistent, gradients that wait in a task with manual optimization.

A checkpoint names them. An attempt that resumes from it is not exact, and says why.
"""

from __future__ import annotations

import zlib
from dis import get_instructions
from functools import cache
from inspect import isfunction, unwrap
from itertools import islice
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from ...hdf5.read.datamodule import H5DataModule

UNSAVED = "unsaved"  # its name in a checkpoint
PLAIN = (bool, int, float, complex, str, bytes, type(None))
LIBRARIES = ("lightning", "torch", "pytorch_lightning", "torchmetrics", "labrig")
LARGEST = (
    1 << 22
)  # elements of a tensor whose content is compared; of larger ones, who has changed it
MOST = 10_000  # values of an attribute that are looked at
DEPTH = 4  # of lists, dicts and objects within each other
MAX_WAIT_BATCHES = 100  # for a batch after which no gradients wait
OF_DATA = frozenset(vars(H5DataModule("")))  # attributes that follow from the settings


class Unsaved(L.Callback):
    """Compares, when a checkpoint is saved, what the user's objects hold with what they held when the
    training began.

    Args:
        callbacks: the user's.
    """

    def __init__(self, callbacks: list[L.Callback]) -> None:
        self.callbacks = [one for one in callbacks if is_users(one)]
        self.first: dict[str, Any] = {}
        self.of_earlier: list[str] = []  # that an earlier attempt has lost

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.of_earlier = checkpoint.get(UNSAVED, [])

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.first = self._now(trainer)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        now = self._now(trainer)
        names = [name for name in now if now[name] != self.first.get(name, now[name])]
        names += [name for name in now if name not in self.first]
        checkpoint[UNSAVED] = sorted({*self.of_earlier, *names})

    def _now(self, trainer: L.Trainer) -> dict[str, Any]:
        """What stands for each attribute that no checkpoint holds, by its name."""
        task = trainer.lightning_module
        found: dict[str, Any] = {}
        if type(task).on_save_checkpoint is L.LightningModule.on_save_checkpoint:
            found |= unsaved_of_module(task)
        data = trainer.datamodule
        saves = data is None or type(data).state_dict is not L.LightningDataModule.state_dict
        if not saves and is_users(data):
            found |= named(
                type(data).__name__, data, OF_DATA | vars(L.LightningDataModule()).keys()
            )
        for callback in self.callbacks:
            kind = type(callback)
            if not any(is_users_hook(kind, name) for name in ("state_dict", "on_save_checkpoint")):
                found |= named(kind.__name__, callback, set_by_libraries(kind))
        return found


def is_users(value: object) -> bool:
    return not is_of_library(type(value))


def is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in LIBRARIES


def is_users_hook(kind: type, name: str) -> bool:
    """Whether the hook of a class is the user's, and none that it inherits from Lightning."""
    owner = next(one for one in kind.__mro__ if name in vars(one))
    return not is_of_library(owner)


@cache
def set_by_libraries(kind: type) -> frozenset[str]:
    """The attributes that code of Lightning sets in a user's subclass of its callback: Lightning
    saves them, or finds them again."""
    names = set()
    for owner in filter(is_of_library, kind.__mro__):
        for function in filter(isfunction, vars(owner).values()):
            steps = get_instructions(unwrap(function))
            names |= {step.argval for step in steps if step.opname == "STORE_ATTR"}
    return frozenset(names)


def unsaved_of_module(task: L.LightningModule) -> dict[str, Any]:
    """Attributes and buffers of a task and of its layers that its `state_dict` leaves out."""
    usual = vars(L.LightningModule()).keys()
    found: dict[str, Any] = {}
    for path, layer in task.named_modules():
        place = f"{type(task).__name__}.{path}" if path else type(task).__name__
        for name in layer._non_persistent_buffers_set:
            found[f"the buffer {place}.{name} (persistent=False)"] = mark_of(
                layer._buffers[name], [1]
            )
        # torchmetrics: their states are saved with the sums of the epoch.
        is_own = is_users(layer) and type(layer).get_extra_state is nn.Module.get_extra_state
        if is_own and not isinstance(layer, Metric):
            found |= named(place, layer, usual)
    return found


def named(place: str, owner: object, left_out: Any) -> dict[str, Any]:
    marks = {
        f"{place}.{name}": mark_of(value, [MOST])
        for name, value in vars(owner).items()
        if name not in left_out and not name.startswith("_hparams")
    }
    return {name: mark for name, mark in marks.items() if mark is not None}


def mark_of(value: Any, left: list[int], depth: int = DEPTH) -> Any:
    """What equals another mark if the value is the same; None for what is not looked at.

    Args:
        left: how many values may still be looked at; counted down.
    """
    left[0] -= 1
    if left[0] < 0:
        return None
    if isinstance(value, PLAIN):
        return (type(value).__name__, repr(value))
    if isinstance(value, Tensor):
        return mark_of_tensor(value)
    if isinstance(value, np.ndarray):
        is_small = value.size <= LARGEST and not value.dtype.hasobject
        return zlib.crc32(np.ascontiguousarray(value).tobytes()) if is_small else None
    if depth == 0 or isinstance(value, nn.Module | L.Callback | L.Trainer | type):
        return None
    if isinstance(value, dict):
        some = islice(value.items(), max(0, left[0]))
        parts = [(str(key)[:80], mark_of(one, left, depth - 1)) for key, one in some]
        return ("dict", len(value), tuple(parts))
    if isinstance(value, list | tuple | set | frozenset):
        some = () if isinstance(value, set | frozenset) else islice(value, max(0, left[0]))
        parts = [mark_of(one, left, depth - 1) for one in some]
        return (type(value).__name__, len(value), tuple(parts))
    if hasattr(value, "__dict__") and is_users(value) and not callable(value):
        parts = [(name, mark_of(one, left, depth - 1)) for name, one in vars(value).items()]
        return (type(value).__name__, tuple(parts))
    return None


def mark_of_tensor(tensor: Tensor) -> Any:
    if isinstance(tensor, nn.Parameter) or tensor.is_sparse or tensor.is_quantized:
        return None
    if tensor.numel() > LARGEST or tensor.is_meta:
        return (id(tensor), tensor._version)
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return (tuple(tensor.shape), str(tensor.dtype), zlib.crc32(content.tobytes()))


class GradientsByHand(L.Callback):
    """Of a task with manual optimization: whether gradients wait for its optimizer's next step.

    A checkpoint holds no gradients, so a stop waits for a batch after which there are none.
    """

    def __init__(self) -> None:
        self.waiting: set[int] = set()  # parameters that have a gradient since their last step
        self.has_seen_backward = False
        self.n_waited = 0

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.has_seen_backward = True
        self.waiting = {id(one) for one in pl_module.parameters() if one.grad is not None}

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        stepped = {id(one) for group in optimizer.param_groups for one in group["params"]}
        self.waiting -= stepped

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.is_pending(trainer):
            name = f"gradients that wait for a step of {type(pl_module).__name__}"
            checkpoint[UNSAVED] = sorted({*checkpoint.get(UNSAVED, []), name})

    def is_pending(self, trainer: L.Trainer) -> bool:
        """Whether gradients wait; where the task calls `loss.backward()` itself, whether any are
        there."""
        parameters = trainer.lightning_module.parameters()
        there = [one for one in parameters if one.grad is not None]
        if self.has_seen_backward:
            return any(id(one) in self.waiting for one in there)
        return any(bool(one.grad.any()) for one in there if one.grad is not None)

    def waits(self, trainer: L.Trainer) -> bool:
        """Whether a stop should wait for another batch."""
        if not self.has_seen_backward or not self.is_pending(trainer):
            self.n_waited = 0
            return False
        self.n_waited += 1
        return self.n_waited <= MAX_WAIT_BATCHES


def gradients_wait(trainer: L.Trainer) -> bool:
    """After a batch, where a stop was asked for: whether a task that optimizes by hand has gradients
    that a checkpoint would lose, and a later batch may have none."""
    found = [one for one in trainer.callbacks if isinstance(one, GradientsByHand)]
    return any(one.waits(trainer) for one in found)
