"""The callbacks of a training: the one list, in the order in which Lightning calls them.

docs/training-design.md says what each does and costs. Plug-ins add theirs by the names in this list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.callbacks import BatchSizeFinder, LearningRateFinder
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.parsing import lightning_getattr, lightning_setattr
from omegaconf import DictConfig

from ...errors import LabError, nearest
from ...plugins import distinct_plugins, load_plugin, origin_of
from ...project import say_once
from ...record.files.checkpoint_hashes import known_hashes
from ...record.read.attempt_files import read_attempts
from ...record.read.run import Run, typed_overrides
from ...record.write.attempt import note_attempt
from ...record.write.weights_place import recorded_checkpoints
from ..checkpoints.checkpoint import Checkpoints
from ..checkpoints.resume_point import whole_checkpoint
from ..checkpoints.tested_weights import TestedWeights
from ..exact.continuation import Continuation
from ..exact.epoch_sums import EpochSums
from ..exact.plain_loaders import PlainLoaders
from ..exact.preemption import PreemptionCallback, StretchCallback
from ..exact.unsaved import Unsaved
from ..watch.health import Health, IdleWatch
from ..watch.means import LogMeans
from ..watch.no_effect import NoEffect
from ..watch.optimizer_watch import OptimizerWatch
from ..watch.profilers import build_profiler
from ..watch.progress import build_progress
from .accumulation import WholeGroups, weighs_batches
from .build import build_callbacks
from .compile import GRAPH_MODES, CaptureSteps, TellCompiled
from .ddp import NodeFacts
from .initialise import LeaveOutInitial
from .validations import Validations

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


def has_saved(run: Run) -> bool:
    """Whether a run has had a checkpoint."""
    hashes = known_hashes(run.checkpoints) or recorded_checkpoints(read_attempts(run.dir))
    return bool(hashes)


def fit_callbacks(config: DictConfig, run: Run, attempt: int) -> list[L.Callback]:
    """The callbacks of one attempt of a run, in order, without those that every Trainer has.

    Args:
        config: a configuration without `auto`.
        attempt: number of the attempt, for the rows of metrics.jsonl.
    """
    own = build_callbacks(config, run.checkpoints)
    found_batch_size = FoundBatchSize(own)
    sums = EpochSums()
    resumed: list[L.Callback] = []
    if whole_checkpoint(run.checkpoints):
        own = without_finders(own)
        resumed = [Continuation(run.dir, attempt, config.trainer, sums)]
    elif rank_zero_only.rank == 0 and has_saved(run):
        say_once(f"{run.id} has no checkpoint any more: it begins from the start")
    preemption = PreemptionCallback(run.dir, sums)
    watch = OptimizerWatch(config.log.get("grad_norm", False))
    means = LogMeans(config.log.get("derived"), watch)
    progress = build_progress(config.log, own, means, watch)
    checkpoints = Checkpoints(
        run.checkpoints,
        every_min=config.checkpoint.every_min,
        every_steps=config.checkpoint.get("every_steps"),
        monitor=config.checkpoint.monitor,
        mode=config.checkpoint.mode,
        test_with=config.trainer.get("test_with", "auto"),
    )
    callbacks: dict[str, list[L.Callback]] = {
        # First, so that it records what the others do.
        "profiler": build_profiler(config, run.dir / "profile"),
        # Before those that ask whether a validation follows.
        "validations": [Validations(config.trainer.get("val_every_steps"))],
        # Before somebody looks at the gradients.
        "groups": [WholeGroups()] if weighs_batches(config, own) else [],
        # Before the first value of the epoch is logged.
        "sums": [sums],
        "optimizer": [watch],
        "means": [means],
        # After the means: they wait for the device, so its times are those of whole steps.
        "health": [Health(run.dir, config.log.bounds, means.train)],
        USERS: own,
        # After a progress bar of the user, above which they print.
        "no_effect": [
            NoEffect(config, typed_overrides(run.dir), partial(note_attempt, run.dir, attempt))
        ],
        "progress": progress,
        "batch_size": [found_batch_size],
        "nodes": [NodeFacts(run, attempt)],
        "idle": [IdleWatch(config, run)],
        "compiled": compiler_callbacks(config, partial(note_attempt, run.dir, attempt)),
        "loaders": [PlainLoaders(config.seed)],
        "unsaved": [Unsaved(own)],
        "resumed": resumed,
        "stretch": [StretchCallback(run.dir, attempt, preemption)],
        # After all others have seen the batch. Lightning always calls checkpoints last.
        "preemption": [preemption],
        # Whatever the others have done to the weights at the end.
        "tested": [TestedWeights(run.checkpoints, partial(note_attempt, run.dir, attempt))],
        # After those that choose what is saved as `state_dict`.
        "left_out": [LeaveOutInitial(config)] if config.checkpoint.get("leave_out_initial") else [],
        "checkpoints": [checkpoints],
    }
    added = added_callbacks(config, callbacks)
    for new in added:
        callbacks = with_added(callbacks, new)
    in_order = [callback for group in callbacks.values() for callback in group]
    if added:
        in_order.append(TellAdded(run, attempt, {new.name: new.package for new in added}))
    return in_order


def compiler_callbacks(
    config: DictConfig, note: Callable[..., None] | None = None
) -> list[L.Callback]:
    """The callbacks that say whether the networks run compiled, and compile the optimizer's step."""
    mode = config.speed.compile
    if not mode:
        return []
    captures = [CaptureSteps(mode)] if mode in GRAPH_MODES else []
    return [*captures, TellCompiled(config.speed, note)]


def with_added(
    callbacks: dict[str, list[L.Callback]], new: AddedCallback
) -> dict[str, list[L.Callback]]:
    """The list with a callback of a plug-in, where that says."""
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


def added_callbacks(config: DictConfig, taken: Iterable[str] = ()) -> list[AddedCallback]:
    """The callbacks of plug-ins; one whose name is in the section `callbacks` is the user's to choose.

    Args:
        taken: the names of labrig's own.
    """
    added = []
    for plugin in distinct_plugins("callbacks", taken, left_out=config.callbacks).values():
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


# Lightning's finders of learning rate and batch size: what they found holds for the whole run.

FINDERS = (BatchSizeFinder, LearningRateFinder)


def without_finders(callbacks: list[L.Callback]) -> list[L.Callback]:
    """The callbacks after the first search: a second one would find something else, and Lightning
    would forget the checkpoint over it."""
    return [callback for callback in callbacks if not isinstance(callback, FINDERS)]


class FoundBatchSize(L.Callback):
    """Keeps the batch size of a BatchSizeFinder in the checkpoints. (A learning rate is in the state
    of its optimizer.)

    Args:
        callbacks: the user's, all of them.
    """

    def __init__(self, callbacks: list[L.Callback]) -> None:
        finders = [callback for callback in callbacks if isinstance(callback, BatchSizeFinder)]
        self.name = finders[0]._batch_arg_name if finders else None
        self.has_searched = False

    def on_train_start(self, *_: Any) -> None:
        self.has_searched = True

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        # The finder would search again before the test, and set the step to 0 on the way.
        if stage == "fit":
            trainer.callbacks = without_finders(trainer.callbacks)

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # Not in the checkpoint that the finder saves before its search, and loads after it.
        if self.name and self.has_searched:
            checkpoint["batch_size"] = lightning_getattr(pl_module, self.name)

    def on_load_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.name and "batch_size" in checkpoint:
            lightning_setattr(pl_module, self.name, checkpoint["batch_size"])
