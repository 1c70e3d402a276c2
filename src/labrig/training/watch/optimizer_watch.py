"""What an optimizer does: its learning rate, and when asked for the norm of the gradient."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..exact.steps import steps_done
from ..lightning_internals import is_scaled_before_step


class OptimizerWatch(L.Callback):
    """Remembers with which learning rate the last step was made; `values` is logged with the means.

    train/lr         of the first group of parameters; of a second optimizer: train/lr_2
    train/grad_norm  norm of all gradients before clipping, of the step that ends an interval

    Args:
        grad_norm: measure the norm of the gradient. It takes time only in the steps of a row.
    """

    def __init__(self, grad_norm: bool = False) -> None:
        self.grad_norm = grad_norm
        self.rates: dict[int, float | Tensor] = {}  # by the optimizer's place in the Trainer
        self.norms: dict[int, float | Tensor] = {}

    def on_before_optimizer_step(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> None:
        n = trainer.optimizers.index(optimizer)
        # A schedule changes it right after the step.
        self.rates[n] = optimizer.param_groups[0]["lr"]
        if self.grad_norm and is_of_row(trainer):
            self.norms[n] = gradient_norm(trainer, optimizer)

    def state_dict(self) -> dict[str, dict[int, float]]:
        """For the checkpoint: a run that was stopped before its row of this step writes the same."""
        return {"rates": as_floats(self.rates), "norms": as_floats(self.norms)}

    def load_state_dict(self, state_dict: dict[str, dict[int, float]]) -> None:
        self.rates = dict(state_dict["rates"])
        self.norms = dict(state_dict["norms"])

    def values(self) -> dict[str, float]:
        """The newest rates and norms by name. A norm is given once; it is read from the device here."""
        values = numbered("train/lr", self.rates) | numbered("train/grad_norm", self.norms)
        self.norms = {}
        return values

    @property
    def rate(self) -> float | None:
        """The learning rate of the first optimizer's last step; None before the first."""
        return next((float(rate) for rate in self.rates.values()), None)


def as_floats(values: dict[int, float | Tensor]) -> dict[int, float]:
    """The same with numbers only, read from the device."""
    return {n: float(value) for n, value in values.items()}


def is_of_row(trainer: L.Trainer) -> bool:
    """Whether the step that is about to be made ends an interval of `log.every_n_steps`."""
    is_automatic = trainer.lightning_module.automatic_optimization
    # Without manual optimization the step at hand is not counted yet.
    n_steps = steps_done(trainer) + int(is_automatic)
    return n_steps % trainer.log_every_n_steps == 0


def gradient_norm(trainer: L.Trainer, optimizer: Optimizer) -> Tensor:
    """The norm over all parameters of an optimizer; with several processes of the mean gradient."""
    gradients = [
        parameter.grad
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.grad is not None
    ]
    norm: Any = torch.nn.utils.get_total_norm(gradients)
    # With parameters spread over processes (FSDP2) all of them together have the norm.
    norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    if trainer.scaler is not None and is_scaled_before_step(trainer, optimizer):
        norm = norm / trainer.scaler.get_scale()
    return norm


def numbered(name: str, values: dict[int, Any]) -> dict[str, float]:
    """`name` for the first optimizer, `name_2` for the second."""
    names = [name, *(f"{name}_{n}" for n in range(2, len(values) + 1))]
    return {name: float(value) for name, value in zip(names, values.values(), strict=False)}
