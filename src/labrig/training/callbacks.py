"""The callbacks of a training: the one list, in the order in which Lightning calls them.

docs/training.md says what each does and costs. Plug-ins add theirs by the names in this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import DictConfig

from ..errors import LabError, nearest
from ..plugins import load_plugin, origin_of, plugins
from ..project import say_once
from ..record.attempt import note_attempt
from ..record.run import Run
from .build import build_callbacks
from .checkpoint import Checkpoints
from .continuation import Continuation
from .ddp import NodeFacts
from .finders import FoundBatchSize, without_finders
from .health import Health
from .idle_watch import IdleWatch
from .means import LogMeans
from .no_effect import NoEffect, typed_overrides
from .optimizer_watch import OptimizerWatch
from .plain_loaders import PlainLoaders
from .preemption import PreemptionCallback
from .profilers import build_profiler
from .progress import build_progress
from .resume_point import whole_checkpoint
from .stretch import StretchCallback

USERS = "yours"  # the name of the section `callbacks` in the list


@dataclass(frozen=True)
class AddedCallback:
    """A callback of a plug-in.

    Args:
        package: that it is from, with its version.
        before, after: the name in the list that it stands next to; "" and "": after the user's.
    """

    name: str
    package: str
    callback: L.Callback
    before: str = ""
    after: str = ""


def fit_callbacks(config: DictConfig, run: Run, attempt: int) -> list[L.Callback]:
    """The callbacks of one attempt of a run, in order, without those that every Trainer has.

    Args:
        config: a configuration without `auto`.
        attempt: number of the attempt, for the rows of metrics.jsonl.

    Raises:
        LabError: one cannot be built, or a plug-in's has no place.
    """
    own = build_callbacks(config, run.checkpoints)
    found_batch_size = FoundBatchSize(own)
    resumed: list[L.Callback] = []
    if whole_checkpoint(run.checkpoints):
        own = without_finders(own)
        resumed = [Continuation(run.dir, attempt)]
    preemption = PreemptionCallback(run.dir)
    watch = OptimizerWatch(config.log.get("grad_norm", False))
    means = LogMeans(watch)
    progress = build_progress(config.log, own, means, watch)
    checkpoints = Checkpoints(
        run.checkpoints,
        every_min=config.checkpoint.every_min,
        monitor=config.checkpoint.monitor,
        mode=config.checkpoint.mode,
    )
    callbacks: dict[str, list[L.Callback]] = {
        # First, so that it records what the others do.
        "profiler": build_profiler(config, run.dir / "profile"),
        "optimizer": [watch],
        "means": [means],
        # After the means: they wait for the device, so its times are those of whole steps.
        "health": [Health(run.dir, config.log.bounds)],
        USERS: own,
        # After a progress bar of the user, above which they print.
        "no_effect": [NoEffect(config, typed_overrides(run.dir))],
        "progress": progress,
        "batch_size": [found_batch_size],
        "nodes": [NodeFacts(run, attempt)],
        "idle": [IdleWatch(config, run)],
        "loaders": [PlainLoaders(config.seed)],
        "resumed": resumed,
        "stretch": [StretchCallback(run.dir, attempt, preemption)],
        # After all others have seen the batch. Lightning always calls checkpoints last.
        "preemption": [preemption],
        "checkpoints": [checkpoints],
    }
    added = added_callbacks(config)
    for new in added:
        callbacks = with_added(callbacks, new)
    in_order = [callback for group in callbacks.values() for callback in group]
    if added:
        in_order.append(TellAdded(run, attempt, {new.name: new.package for new in added}))
    return in_order


def with_added(
    callbacks: dict[str, list[L.Callback]], new: AddedCallback
) -> dict[str, list[L.Callback]]:
    """The list with a callback of a plug-in, where that says.

    Raises:
        LabError: the list has no such place.
    """
    neighbour = new.before or new.after or USERS
    names = list(callbacks)
    if neighbour not in names:
        raise LabError(
            f"the callback {new.name} of {new.package} wants to stand next to {neighbour}"
            f"{nearest(neighbour, names)}. The names are: {', '.join(names)}"
        )
    place = names.index(neighbour) + (0 if new.before else 1)
    groups = list(callbacks.items())
    groups.insert(place, (new.name, [new.callback]))
    return dict(groups)


def added_callbacks(config: DictConfig) -> list[AddedCallback]:
    """The callbacks of plug-ins; one whose name is in the section `callbacks` is the user's to choose.

    Raises:
        LabError: a plug-in gives something else.
    """
    added = []
    for plugin in plugins("callbacks"):
        if plugin.name in config.callbacks:
            continue
        make = load_plugin(plugin)
        callback: Any = make(config)
        if callback is None:
            continue
        if not isinstance(callback, L.Callback):
            raise LabError(
                f"the plug-in {plugin.name} of {origin_of(plugin)} gave a {type(callback).__name__}."
                " It must give a Lightning Callback, or None"
            )
        before, after = getattr(make, "before", ""), getattr(make, "after", "")
        added.append(AddedCallback(plugin.name, origin_of(plugin), callback, before, after))
    return added


def callbacks_of_a_check(config: DictConfig) -> list[L.Callback]:
    """The user's and the plug-ins' callbacks, without those that wait for a metric (EarlyStopping)."""
    callbacks = [*build_callbacks(config), *(new.callback for new in added_callbacks(config))]
    return [callback for callback in callbacks if not hasattr(callback, "monitor")]


class TellAdded(L.Callback):
    """Says in one line, and in the record, which callbacks plug-ins have added.

    Args:
        added: name of each and the package that it is from.
    """

    def __init__(self, run: Run, attempt: int, added: dict[str, str]) -> None:
        self.run_dir = run.dir
        self.attempt = attempt
        self.added = added

    @rank_zero_only
    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        named = [f"{name} ({package})" for name, package in self.added.items()]
        say_once(f"callbacks of plug-ins: {', '.join(named)}; callbacks.NAME=null leaves one out")
        note_attempt(self.run_dir, self.attempt, callbacks=self.added)
