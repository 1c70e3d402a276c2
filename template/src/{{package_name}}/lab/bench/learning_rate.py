# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench --lr`: the loss while the learning rate rises."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from ..config.compose import compose
from ..errors import LabError
from ..project import Project
from .measure import MemoryAfterBatch, build_bench


def find_learning_rate(project: Project, options: Any) -> tuple[dict, str, dict]:
    config = compose(project, options.overrides).config
    from .learning_rate import lr_curve  # torch, only now

    found = lr_curve(config, max(100, options.steps))
    curve, best = list(zip(found["lr"], found["loss"], strict=True)), found["suggestion"]
    words = "\n".join(
        ["        lr  loss", *[f"{rate:>10.1e}  {loss:.4f}" for rate, loss in curve[::6]]]
    )
    words += f"\nsteepest fall: {best:.1e}. Nothing was changed; to try it: optimizer.lr={best:.1e}"
    return (
        found,
        words,
        {"x": "learning rate", "y": "loss", "curves": {"loss": curve}, "marked": best},
    )


def lr_curve(config: DictConfig, n_steps: int) -> dict[str, Any]:
    """Smoothed losses at learning rates from 1e-7 to 1, and the rate at which they fall fastest per decade. Lightning's
    lr_find does the same for a rate that is an attribute of the task; here it belongs to the optimizer.

    Raises:
        LabError: the task calls its optimizers by itself, so no loss comes back from its step.
    """
    watch = MemoryAfterBatch([10 ** (7 * i / (n_steps - 1) - 7) for i in range(n_steps)])
    config = OmegaConf.merge(config, {"trainer": {"devices": 1, "accumulate_grad_batches": 1}})
    with tempfile.TemporaryDirectory() as temporary:
        _, trainer, task, data = build_bench(config, temporary, [watch])
        if not task.automatic_optimization:
            raise LabError(
                "--lr needs the loss that training_step returns; this task steps its optimizers by itself"
            )
        trainer.fit(task, datamodule=data)
    losses, mean = [], 0.0
    for i, loss in enumerate(torch.stack(watch.losses).tolist()):
        mean = 0.9 * mean + 0.1 * loss
        losses.append(mean / (1 - 0.9 ** (i + 1)))
    lowest = losses.index(min(filter(math.isfinite, losses)))
    falls = {
        watch.lr[i]: losses[i - 5] - losses[i + 5]
        for i in range(10, max(11, min(lowest, n_steps - 5)))
    }
    return {"lr": watch.lr, "loss": losses, "suggestion": max(falls, key=falls.get)}
