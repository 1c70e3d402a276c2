"""Settings that can have no effect: the training says so, and so does `lab check`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lightning.pytorch as L
import yaml
from omegaconf import DictConfig

from ..errors import nearest
from ..project import CONF
from .print_line import print_line

SECTIONS = ("model", "optimizer", "schedule")  # a task gets those that its __init__ names


class NoEffect(L.Callback):
    """Prints a line for each setting without effect: sections that the task does not take, before
    the training; metrics that nobody logs, after the first validation.

    Args:
        config: of the run.
        overrides: what was typed.
    """

    def __init__(self, config: DictConfig, overrides: list[str]) -> None:
        self.monitor = config.checkpoint.monitor
        self.bounds = [key for key in config.log.bounds if key not in shipped_bounds()]
        self.overrides = overrides
        self.has_validated = False
        self.has_looked = False

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for line in unused_overrides(pl_module, self.overrides):
            print_line(trainer, line)

    def on_validation_end(self, *_: Any) -> None:
        self.has_validated = True

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any, **__: Any) -> None:
        """Now all is there that is logged at the end of an epoch."""
        can_look = self.has_validated or not trainer.enable_validation
        if self.has_looked or not can_look or not trainer.callback_metrics:
            return
        self.has_looked = True
        for line in unknown_metrics(self.monitor, self.bounds, list(trainer.callback_metrics)):
            print_line(trainer, line)

    on_train_end = on_train_epoch_start


def unused_overrides(task: L.LightningModule, overrides: list[str]) -> list[str]:
    """A line for each typed setting of a section that the task does not take."""
    parameters = inspect.signature(type(task).__init__).parameters
    lines = []
    for override in overrides:
        section = override.lstrip("+~").partition("=")[0].partition(".")[0]
        if section in SECTIONS and section not in parameters:
            lines.append(
                f"lab: {override} has no effect: {type(task).__name__}.__init__ "
                f"has no argument {section!r}."
            )
    return lines


def unknown_metrics(monitor: str | None, bounds: list[str], logged: list[str]) -> list[str]:
    """A line for the monitor, and one for each of the bounds, that belong to no logged metric."""
    lines = []
    if monitor and monitor not in logged:
        lines.append(
            f"lab: checkpoint.monitor is {monitor!r}, which nobody logs{nearest(monitor, logged)}. "
            f"There is no best.ckpt without it. Logged: {', '.join(sorted(logged))}"
        )
    last_parts = {name.rpartition("/")[2] for name in logged}
    lines += [
        f"lab: log.bounds.{key} has no effect: no metric ends in {key!r}{nearest(key, last_parts)}."
        for key in bounds
        if key not in last_parts
    ]
    return lines


def shipped_bounds() -> dict[str, Any]:
    """log.bounds of the template, for metrics that many projects do not have."""
    text = (CONF / "lab.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["log"]["bounds"]


def typed_overrides(run_dir: Path) -> list[str]:
    """What was typed when a run was made."""
    file = run_dir / "overrides.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
