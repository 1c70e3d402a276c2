"""Settings that can have no effect: the training says so, and so does `lab check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import lightning.pytorch as L
from omegaconf import DictConfig

from ...config.setting import settings_of
from ...errors import nearest
from ...record.files.schema import TrainedWith
from ...record.read.ranking import mode_by_name, mode_in
from ..parts.build import Origin, TaskPart, parts_of
from ..sections import LogSettings
from .print_line import print_line


class NoEffect(L.Callback):
    """Prints a line for each setting without effect: sections that the task does not take, before
    the training; metrics that nobody logs, after the first validation.

    Args:
        config: of the run.
        overrides: what was typed.
        note: is called with `trained_with`, for the record.
    """

    def __init__(
        self,
        config: DictConfig,
        overrides: list[str],
        note: Callable[..., None] | None = None,
    ) -> None:
        self.config = config
        self.monitor = config.checkpoint.monitor
        self.contrary = contrary_mode(config)
        self.bounds = [key for key in config.log.bounds if key not in shipped_bounds()]
        self.overrides = overrides
        self.note = note
        self.has_validated = False
        self.has_looked = False

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Now the task has made its optimizers and schedules, and a progress bar is there."""
        parts = parts_of(self.config)
        made = made_by(trainer, pl_module)
        for line in lines_of_parts(parts, made, self.config, self.overrides) + self.contrary:
            print_line(trainer, line)
        if self.note and trainer.is_global_zero:
            self.note(trained_with=trained_with(parts, made))

    def on_validation_end(self, *_: Any) -> None:
        self.has_validated = True

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any, **__: Any) -> None:
        """Now all is there that is logged at the end of an epoch."""
        can_look = self.has_validated or not trainer.enable_validation
        if self.has_looked or not can_look or not trainer.callback_metrics:
            return
        self.has_looked = True
        logged = list(trainer.callback_metrics)
        lines = unknown_metrics(self.monitor, self.bounds, logged)
        for line in lines + not_derived(self.config.log.get("derived", {}), logged):
            print_line(trainer, line)

    on_train_end = on_train_epoch_start


def made_by(trainer: L.Trainer, task: L.LightningModule) -> dict[str, list[str]]:
    """The classes of what trains, by the name of the part: the network, optimizers, schedules."""
    model = getattr(task, "model", None)
    schedules = [config.scheduler for config in trainer.lr_scheduler_configs]
    return {
        "model": [] if model is None else [type(model).__name__],
        "optimizer": [type(optimizer).__name__ for optimizer in trainer.optimizers],
        "schedule": [type(schedule).__name__ for schedule in schedules],
    }


def trained_with(parts: list[TaskPart], made: dict[str, list[str]]) -> dict[str, TrainedWith]:
    """What trained, for the record: the classes of each part, and what decided them."""
    return {
        part.name: {"classes": made[part.name], "decided_by": origin_in_words(part)}
        for part in parts
    }


def origin_in_words(part: TaskPart) -> str:
    return {
        Origin.TASK: f"task.{part.name}",
        Origin.SECTION: part.name,
        Origin.DEFAULT: "the default of the task",
        Origin.CLASS: "the task",
    }[part.origin]


def lines_of_parts(
    parts: list[TaskPart], made: dict[str, list[str]], config: DictConfig, overrides: list[str]
) -> list[str]:
    """A line for each section that the task does not get, and for each that replaces a default."""
    lines = []
    task = config.task._target_.rpartition(".")[2]
    for part in parts:
        section = config.get(part.name)
        if not section:
            continue
        named = f"the section {part.name} ({section._target_})"
        if part.origin is Origin.SECTION:
            if part.default is None:
                lines.append(
                    f"lab: {part.name} of {task} is {named}, not its default None. "
                    f"To keep the default: task.{part.name}=null"
                )
            continue
        typed = [override for override in overrides if section_of(override) == part.name]
        lines.append(
            f"lab: {', '.join(typed) or named} has no effect: "
            f"{why_unused(part, config, task)}{used_instead(part, made)}"
        )
        if part.name == "optimizer" and config.batch.scale_lr:
            lines.append("lab: batch.scale_lr has no effect: it scales the section optimizer.")
    return lines


def section_of(override: str) -> str:
    """The section that a typed setting belongs to."""
    return override.lstrip("+~").partition("=")[0].partition(".")[0]


def why_unused(part: TaskPart, config: DictConfig, task: str) -> str:
    """Why a task does not get a section."""
    if part.origin is Origin.TASK:
        return f"task.{part.name} wins."
    if part.origin is Origin.DEFAULT:
        return (
            f"{task}.__init__ has the default {part.name}={part.default!r}. "
            f"To use the section: 'task.{part.name}=${{{part.name}}}'."
        )
    return f"{task}.__init__ has no argument {part.name!r}."


def used_instead(part: TaskPart, made: dict[str, list[str]]) -> str:
    """What trains in place of an optimizer or a schedule that has no effect."""
    if part.name == "model":
        return ""
    return f" It trains with {', '.join(made[part.name]) or 'none'}."


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


def not_derived(formulas: Mapping[str, str], logged: list[str]) -> list[str]:
    """A line for each formula of log.derived with a name that no step returns."""
    names = {part for metric in logged for part in metric.split("/")[1:2]}
    return [
        f"lab: log.derived.{name}={formula} has no effect: no step returns all that it is made of. "
        f"Returned: {', '.join(sorted(names))}"
        for name, formula in formulas.items()
        if name not in names
    ]


def contrary_mode(config: DictConfig) -> list[str]:
    """A line where checkpoint.mode is not what the name of the monitor says: it may be forgotten."""
    monitor, mode = config.checkpoint.monitor, config.checkpoint.mode
    by_name = mode_by_name(monitor or "")
    if by_name in (None, mode) or mode_in(dict(config.get("metrics") or {}), monitor) == mode:
        return []
    most = {"min": "lowest", "max": "highest"}
    return [
        f"lab: checkpoint.mode is {mode}, so best.ckpt has the {most[mode]} {monitor}. "
        f"For the {most[by_name]}: checkpoint.mode={by_name}"
    ]


def shipped_bounds() -> dict[str, Any]:
    """The default of log.bounds, for metrics that many projects do not have."""
    return settings_of(LogSettings)["bounds"].default
