"""Whether an attempt continues bit for bit what the one before it left; the record says so.

Schedules that would keep the length of the run before it is extended are refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import BaseFinetuning, ModelPruning
from lightning.pytorch.utilities import CombinedLoader
from omegaconf import DictConfig
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset

from ...config.trainer_arguments import duration_s
from ...errors import LabError
from ...record.read.attempt_files import read_attempt
from ...record.write.attempt import note_attempt
from ..lightning_internals_torch import can_seed_batches
from .epoch_sums import EpochSums
from .plain_loaders import draws_as_torch
from .preemption import BATCH_IS_FINISHED
from .steps import is_within_epoch
from .unsaved import UNSAVED

# Callbacks of Lightning that do not save all that they change: frozen weights, masks.
FORGETFUL = (BaseFinetuning, ModelPruning)
# Settings of an attempt that change the last bits, by their name in start.json.
CHOSEN = ("device", "precision", "threads", "instructions", "flags", "matmul_precision")
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
SKIPPED = (torch.Tensor, np.ndarray, type, ModuleType)  # hold no generators
DEPTH = 4  # of objects within a dataset that are searched for generators


class Continuation(L.Callback):
    """Of an attempt that resumes: writes `exact` and `inexact_because` into its start.json, and prints
    a line when it is not exact.

    `exact` is true when nothing that this template knows of differs from an uninterrupted run.

    Args:
        run_dir, attempt: where start.json is.
        settings: the section `trainer`.
        sums: of the epoch.
    """

    def __init__(self, run_dir: Path, attempt: int, settings: DictConfig, sums: EpochSums) -> None:
        self.run_dir = run_dir
        self.attempt = attempt
        self.settings = settings
        self.sums = sums
        self.n_ranks_before: int | None = None  # None: no checkpoint was loaded
        self.batch_was_finished = False
        self.unsaved: list[str] = []
        self.schedules = ScheduleLengths()

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self.n_ranks_before = len(checkpoint.get("random_states", []))
        self.batch_was_finished = checkpoint.get(BATCH_IS_FINISHED, False)
        self.unsaved = checkpoint.get(UNSAVED, [])

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.schedules.note_new(trainer)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.n_ranks_before is None:
            return
        of_schedules = self.schedules.reasons(trainer)  # on all ranks: it may end them
        if not trainer.is_global_zero:
            return
        reasons = changed_settings(self.run_dir, self.attempt) + of_schedules
        reasons += [f"no checkpoint holds {name}, which has changed" for name in self.unsaved]
        if self.n_ranks_before != trainer.world_size:
            reasons.append(f"{self.n_ranks_before} processes before, {trainer.world_size} now")
        reasons += [
            f"Lightning's {type(callback).__name__} does not save all that it changes"
            for callback in trainer.callbacks
            if isinstance(callback, FORGETFUL)
        ]
        reasons += reasons_of_settings(self.settings, trainer.current_epoch)
        for loader in CombinedLoader(trainer.train_dataloader).flattened:
            reasons += reasons_of(loader, is_within_epoch(trainer))
        if draws_as_torch(trainer):
            reasons.append(
                "with draws: torch no checkpoint holds the order of the epoch, and a new one was drawn"
            )
        reasons += self.sums.reasons(trainer)
        has_hook = type(pl_module).on_train_batch_end is not L.LightningModule.on_train_batch_end
        if has_hook and is_within_epoch(trainer) and not self.batch_was_finished:
            name = type(pl_module).__name__
            reasons.append(f"the checkpoint is of before on_train_batch_end of {name}")
        note_attempt(self.run_dir, self.attempt, exact=not reasons, inexact_because=reasons)
        if reasons:
            print(
                f"lab: resumed, but perhaps not bit for bit: {'; '.join(reasons)}. "
                "The record says so too.",
                flush=True,
            )


def changed_settings(run_dir: Path, attempt: int) -> list[str]:
    """What was chosen for this attempt otherwise than for the one before."""
    starts: Any = [read_attempt(run_dir, n).start for n in (attempt - 1, attempt)]
    before, now = starts
    names = now.get("variables_changed") or []
    variables = [f"other values of the variables {', '.join(names)}"] if names else []
    return variables + [
        f"{name} {before[name]} before, {now[name]} now"
        for name in CHOSEN
        if name in before and name in now and before[name] != now[name]
    ]


def reasons_of_settings(settings: DictConfig, epoch: int) -> list[str]:
    """Arguments of the Trainer with which a stop shows.

    Args:
        settings: the section `trainer`.
        epoch: in which the run goes on.
    """
    reasons = []
    if duration_s(settings.get("val_check_interval")) is not None:
        reasons.append("trainer.val_check_interval validates by the clock, which began anew")
    if settings.get("max_time") is not None:
        reasons.append("trainer.max_time ends the run by the clock")
    n_epochs = settings.get("reload_dataloaders_every_n_epochs") or 0
    if n_epochs and epoch % n_epochs:
        reasons.append(
            f"trainer.reload_dataloaders_every_n_epochs={n_epochs}: the loaders of epoch "
            f"{epoch - epoch % n_epochs + 1} were made in epoch {epoch + 1}"
        )
    return reasons


def reasons_of(loader: Any, within_epoch: bool) -> list[str]:
    """Why a training loader may give other batches than without the stop.

    Args:
        within_epoch: whether the stop was in the middle of an epoch.
    """
    if hasattr(loader, "inexact_because"):
        return loader.inexact_because
    if hasattr(loader, "state_dict"):
        return []
    name = type(loader).__name__
    if not isinstance(loader, DataLoader):
        return [f"{name} has no state_dict, so it began its epoch again"] if within_epoch else []
    if isinstance(loader.dataset, IterableDataset):
        return ["an IterableDataset has no order that could be repeated"]
    reasons = [
        f"{type(sampler).__name__} may keep random numbers of its own"
        for sampler in (loader.sampler, loader.batch_sampler)
        if may_draw_on_its_own(sampler)
    ]
    if holds_generator([loader.dataset], DEPTH):
        reasons.append(f"{type(loader.dataset).__name__} has a random generator of its own")
    seeds_batches = loader.batch_sampler is not None and can_seed_batches()
    if loader.num_workers and within_epoch and not seeds_batches:
        reasons.append(f"the random numbers of {name}'s workers cannot be repeated")
    return reasons


def may_draw_on_its_own(sampler: Any) -> bool:
    """Whether a sampler is neither torch's or Lightning's, nor told the epoch by `set_epoch`."""
    if sampler is None or hasattr(sampler, "set_epoch"):
        return False
    return type(sampler).__module__.partition(".")[0] not in (
        "torch",
        "lightning",
        "pytorch_lightning",
    )


def holds_generator(values: Iterable[Any], depth: int) -> bool:
    """Whether one of the values is a random generator, or has one, such as a transform."""
    for value in values:
        if isinstance(value, GENERATORS):
            return True
        if depth == 0 or isinstance(value, SKIPPED):
            continue
        parts = list(vars(value).values()) if hasattr(value, "__dict__") else []
        if isinstance(value, list | tuple):
            parts += value[:10]
        if holds_generator(parts, depth - 1):
            return True
    return False


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
