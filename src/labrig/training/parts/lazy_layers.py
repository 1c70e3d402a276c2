"""Layers that take their sizes from the first batch: torch.nn.LazyLinear and the like."""

from __future__ import annotations

import lightning.pytorch as L
from omegaconf import DictConfig
from torch import nn
from torch.nn.parameter import is_lazy

from ...errors import LabError


def unsized_tensors(task: nn.Module) -> list[str]:
    """The names of parameters and buffers whose shape the first batch decides."""
    tensors = [*task.named_parameters(), *task.named_buffers()]
    return [name for name, tensor in tensors if is_lazy(tensor)]


def sized_parameters(task: nn.Module) -> list[nn.Parameter]:
    """The parameters whose shape is known."""
    return [parameter for parameter in task.parameters() if not is_lazy(parameter)]


def n_parameters_of(task: nn.Module) -> int:
    """How many numbers are learned or frozen, in the parameters whose shape is known."""
    return sum(parameter.numel() for parameter in sized_parameters(task))


def require_sizes(task: L.LightningModule, config: DictConfig, n_processes: int) -> None:
    """Makes sure that all shapes are known where they must be before the first batch.

    Args:
        n_processes: that will train together.
    """
    names = unsized_tensors(task)
    if not names:
        return
    makes_model_later = type(task).configure_model is not L.LightningModule.configure_model
    if config.speed.channels_last:
        reason = "speed.channels_last"
    elif n_processes > 1 and not makes_model_later:
        reason = f"training in {n_processes} processes"
    else:
        return
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    raise LabError(
        f"{reason} needs every size before the first batch, but that decides the size of "
        f"{names[0]}{more}. Write sizes in place of torch.nn.Lazy..., or show the network "
        "one sample at the end of the task's __init__:\n"
        "with torch.no_grad(): self.model(torch.zeros(1, 1, 8, 8))  # the shape of yours"
    )
