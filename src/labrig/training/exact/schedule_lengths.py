"""Schedules of a run that is resumed with another length: those that keep the old one are refused."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as L
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from ...errors import LabError

# What changes from step to step in the state of torch's schedules; the rest follows from settings.
MOVING = ("last_epoch", "best", "num_bad_epochs", "cooldown_counter", "T_cur", "T_i", "base_lrs")


class ScheduleLengths:
    """Compares the schedules that the settings of today make with those of the checkpoint."""

    def __init__(self) -> None:
        self.new: list[dict[str, Any]] = []  # their states before Lightning loads those of the run

    def note_new(self, trainer: L.Trainer) -> None:
        """To be called once the schedules are made, before a checkpoint sets their states."""
        schedules = [config.scheduler for config in trainer.lr_scheduler_configs]
        self.new = [constants_of(one.state_dict()) for one in schedules]

    def reasons(self, trainer: L.Trainer) -> list[str]:
        """What differs from a run of the new length from its start."""
        reasons = []
        schedules = [config.scheduler for config in trainer.lr_scheduler_configs]
        for schedule, new in zip(schedules, self.new, strict=False):
            name = type(schedule).__name__
            if isinstance(schedule, ReduceLROnPlateau):
                continue
            old = constants_of(schedule.state_dict())
            changed = [key for key in new if key in old and new[key] != old[key]]
            if changed:
                values = ", ".join(f"{key} {old[key]} before, {new[key]} now" for key in changed)
                raise LabError(
                    f"the schedule {name} was made for a run of another length ({values}), and does not "
                    "continue along the longer or shorter curve. Resume with the length that the run "
                    "had, or start a new run of that length, which may begin with these weights: "
                    "init_from=RUN. With schedule=cosine a run can be made longer"
                )
            reasons += moved(schedule, name)
        return reasons


def moved(schedule: Any, name: str) -> list[str]:
    """That a closed form of the step gives another rate than the checkpoint has."""
    if not isinstance(schedule, LambdaLR):
        return []
    before = list(schedule._last_lr)
    pairs = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    now = [rate * factor(schedule.last_epoch) for rate, factor in pairs]
    if now == before:
        return []
    return [
        f"the schedule {name} ends at another step now: lr {before[0]:.3g} -> {now[0]:.3g}. "
        "A run of this length from its start has another curve"
    ]


def as_plain(value: Any) -> Any:
    """A value as checkpoints give it back: no tuples, no Counter."""
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def constants_of(state: dict[str, Any], place: str = "") -> dict[str, Any]:
    """The plain values in the state of a schedule that no step changes, those of inner ones too."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        if key in MOVING:
            continue
        if key == "_schedulers":
            for n, inner in enumerate(value):
                found |= constants_of(inner, f"{place}{n}.")
        elif key == "_milestones" or not key.startswith("_"):
            found[f"{place}{key.lstrip('_')}"] = as_plain(value)
    return found
