"""The private parts of Lightning that are replaced or read: each with the function of Lightning,
and the reason.

They are used with the tested releases only. With another one training works through public names: a
function here says what is different then. What is replaced comes back when its block ends, at the
latest with the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import lightning
import lightning.pytorch as L
from lightning.pytorch.callbacks import GradientAccumulationScheduler, StochasticWeightAveraging
from lightning.pytorch.plugins import MixedPrecision, Precision
from lightning.pytorch.utilities import CombinedLoader
from omegaconf import DictConfig
from torch.optim import Optimizer

from .lightning_internals_torch import replaced

TESTED = ("2.6",)  # releases of Lightning whose source was read for this file


def is_tested() -> bool:
    """Whether the private parts of the installed Lightning are known."""
    return ".".join(lightning.__version__.split(".")[:2]) in TESTED


@cache  # once in a process
def print_untested() -> None:
    print(
        f"Lightning {lightning.__version__} was not tested with this template, {' and '.join(TESTED)} was. "
        "Training works. Steps take a little longer, speed/data_wait is missing, and a stop waits for the end of "
        "a validation. An epoch that resumes in its middle begins the sums of self.log again. On several processes "
        "some samples of a DataLoader of your own count twice in a validation or test. "
        f"To install a tested release: pip install 'lightning=={TESTED[-1]}.*'",
        flush=True,
    )


class Internals(L.Callback):
    """Replaces what the section `speed` asks for, as long as `fit`, `validate` or `test` runs.

    With a release of Lightning that was not tested it runs Lightning's loop, and prints one line.
    `why_not_lean` is the reason for Lightning's loop from the first batch on.

    Args:
        speed: the section `speed` of the configuration.
    """

    def __init__(self, speed: DictConfig) -> None:
        self.is_lean = speed.get("lean_loop", "auto") is not False
        self.why_not_lean: str | None = "speed.lean_loop=false"
        self.replacements = ExitStack()

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if not is_tested():
            self.why_not_lean = f"Lightning {lightning.__version__} was not tested"
            if trainer.is_global_zero:
                print_untested()
            return
        self.replacements.enter_context(fused_gradients_clipped(trainer))
        # Their files import private names, which another release may lack.
        if trainer.world_size > 1 or stage == "predict":
            from .lightning_internals_evaluation import each_sample_counted_once

            self.replacements.enter_context(each_sample_counted_once(trainer))
        if self.is_lean and stage == "fit":
            from .lightning_internals_lean import lean_loop

            self.replacements.enter_context(lean_loop(trainer, self.note_loop))

    def note_loop(self, why_not_lean: str | None) -> None:
        self.why_not_lean = why_not_lean

    def teardown(self, *_: Any, **__: Any) -> None:
        self.replacements.close()

    on_exception = teardown


def loop_line(trainer: L.Trainer) -> str:
    """Which loop a Trainer has trained with, and why."""
    internals = next(one for one in trainer.callbacks if isinstance(one, Internals))
    why = internals.why_not_lean
    return f"Lightning's loop: {why}" if why else "the lean loop"


@contextmanager
def fused_gradients_clipped(trainer: L.Trainer) -> Iterator[None]:
    """Within the block the gradients of a fused optimizer are clipped in mixed precision too.

    `MixedPrecision.clip_gradients` refuses it, because a fused optimizer divides by the scale of
    16-mixed within its step, which is too late for clipping. bf16-mixed has no scale. With one they
    are divided after backward, as for any other optimizer; torch's GradScaler leaves it out of the
    step then. Otherwise: `without_refused_fused` has switched the fused optimizer off.
    """
    plugin: Any = trainer.precision_plugin
    if type(plugin) is not MixedPrecision:
        yield
        return
    scaler: Any = plugin.scaler

    def step(optimizer: Any, model: L.LightningModule, closure: Any, **kwargs: Any) -> Any:
        def closure_and_scale() -> Any:
            loss = closure()
            if loss is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
                scaler.unscale_(optimizer)
            return loss

        return MixedPrecision.optimizer_step(plugin, optimizer, model, closure_and_scale, **kwargs)

    with ExitStack() as stack:
        is_automatic = trainer.lightning_module.automatic_optimization
        if scaler is None or is_automatic:
            clip = partial(Precision.clip_gradients, plugin)
            stack.enter_context(replaced(plugin, "clip_gradients", clip))
        if scaler is not None and is_automatic and clips_gradients(trainer):
            stack.enter_context(replaced(plugin, "optimizer_step", step))
        yield


def clips_gradients(trainer: L.Trainer) -> bool:
    """Whether the gradients are clipped, by a setting or by the task's own hook."""
    own_hook = type(trainer.lightning_module).configure_gradient_clipping
    is_own = own_hook is not L.LightningModule.configure_gradient_clipping
    return bool(trainer.gradient_clip_val) or is_own


def is_scaled_before_step(trainer: L.Trainer, optimizer: Optimizer) -> bool:
    """Whether the gradients still have the scale of 16-mixed in `on_before_optimizer_step`: a fused
    optimizer divides by it within its step, unless they are clipped."""
    divides_itself = getattr(optimizer, "_step_supports_amp_scaling", False)
    is_divided = "optimizer_step" in vars(trainer.precision_plugin)  # by `fused_gradients_clipped`
    return trainer.scaler is not None and divides_itself and not is_divided


@contextmanager
def signals_ignored(trainer: L.Trainer) -> Iterator[bool]:
    """Lightning handles no signals within the block; gives False where it handles TERM
    nevertheless.

    - `_SignalConnector.register_signal_handlers` takes TERM before the first step, and ends the
      training there.
    - `_TrainingEpochLoop._broadcast_sigterm_tensor` asks all ranks in each step, which is one
      collective more.

    Otherwise: whoever listens in `on_train_start` comes after Lightning, and takes TERM from it.
    """
    if not is_tested():
        yield False
        return
    loop = trainer.fit_loop.epoch_loop
    with (
        replaced(trainer._signal_connector, "register_signal_handlers", do_nothing),
        replaced(loop, "_broadcast_sigterm_tensor", do_nothing),
    ):
        yield True


def do_nothing() -> None:
    pass


def optimizer_steps(trainer: L.Trainer) -> int:
    """`trainer.global_step` in automatic optimization, without what it asks each time: four callbacks
    want it in each step. Otherwise: `global_step`.
    """
    try:
        return trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer_steps
    except AttributeError:
        return trainer.global_step


def validation_follows(trainer: L.Trainer) -> bool:
    """Whether the training loop validates before its next batch.

    `_TrainingEpochLoop._should_check_val_fx` decides it, and no public name says so. Otherwise: by
    `val_check_interval` as a number of batches.
    """
    loop = trainer.fit_loop.epoch_loop
    if is_tested():
        fetcher: Any = trainer.fit_loop._data_fetcher
        return loop._should_check_val_fx(fetcher)
    interval = trainer.val_check_batch
    if not trainer.enable_validation or interval is None or math.isinf(interval):
        return False
    batch_idx = loop.batch_idx if trainer.check_val_every_n_epoch else loop.total_batch_idx
    return (batch_idx + 1) % interval == 0


@contextmanager
def called_before_validation(trainer: L.Trainer, function: Callable[[], None]) -> Iterator[None]:
    """`function` is called before each validation makes its iterators, which draw from the random
    generators.

    `_EvaluationLoop.reset` makes them, and Lightning's first hook comes after it. Otherwise: it is
    not called; it matters to a stop during validation only, see `can_restart_validation`.
    """
    if not is_tested():
        yield
        return
    val_loop = trainer.fit_loop.epoch_loop.val_loop
    reset = val_loop.reset

    def call_and_reset() -> None:
        function()
        if val_loop.restarting:
            # What had begun before the stop does not count; Lightning resets `current` alone.
            val_loop.batch_progress.total.reset_on_restart()
        reset()

    with replaced(val_loop, "reset", call_and_reset):
        yield


def finish_batch(trainer: L.Trainer, outputs: Any, batch: Any, batch_idx: int) -> bool:
    """What Lightning does with a batch after the callbacks' `on_train_batch_end`, of which one stops
    the training: the hook of the module, the row of `self.log`, schedules by a metric.

    `_TrainingEpochLoop.advance` and `on_advance_end` do it. Otherwise: it is not done, and this is
    False.
    """
    if not is_tested():
        return False
    # A private name, which another release may lack.
    from lightning.pytorch.trainer.call import _call_lightning_module_hook

    _call_lightning_module_hook(trainer, "on_train_batch_end", outputs, batch, batch_idx)
    trainer._logger_connector.on_batch_end()
    trainer._logger_connector.update_train_step_metrics()
    trainer.fit_loop.epoch_loop.update_lr_schedulers("step", update_plateau_schedulers=True)
    return True


def names_of_own_rows(trainer: L.Trainer) -> set[str]:
    """The names under which `self.log` gives the loggers values in this stage.

    `_ResultCollection` knows them from the first call on. Otherwise: those that were logged before.
    """
    if not is_tested():
        return set(trainer.logged_metrics)
    results: Any = trainer._results
    options = [result.meta for result in results.values() if result.meta.logger]
    return {meta.forked_name(on_step) for meta in options for on_step in (True, False)}


def can_restart_validation() -> bool:
    """Whether `restart_validation` works. Where it does not, a stop waits for the end of the
    validation."""
    return is_tested()


def restart_validation(trainer: L.Trainer) -> None:
    """A checkpoint that is saved after this call continues with this validation, from its first
    batch.

    `_EvaluationLoop.batch_progress` then says that no batch is done, and one had begun: this is
    what `_EvaluationLoop.update_restart_stage` takes for a stop in the middle of a validation.
    """
    progress = trainer.fit_loop.epoch_loop.val_loop.batch_progress
    progress.current.reset()
    progress.total.reset()
    progress.total.ready = progress.total.started = 1


def begin_after_finished_epoch(trainer: L.Trainer) -> None:
    """After a checkpoint of the end of an epoch the next one begins, also with `max_steps`.

    `_FitLoop.restarting` is True then in each run that has `max_steps`. Lightning would run the
    finished epoch once more without batches: its hooks (EarlyStopping, checkpoints) would be called
    a second time, and `epoch_progress` would be one too far. Otherwise: it is so.

    To be called in `on_train_start`.
    """
    loop = trainer.fit_loop
    if not is_tested() or not loop.restarted_on_epoch_end:
        return
    # Of the class that it inherits from: the own one asks for `max_steps`.
    type(loop).__mro__[1].restarting.fset(loop, False)
    loop.reset_restart_stage()
    loop.epoch_loop.reset_restart_stage()
    loop.epoch_progress.total.completed = loop.epoch_progress.total.processed
    loop.epoch_progress.current.completed = loop.epoch_progress.current.processed


def forget_skipped_batch(trainer: L.Trainer) -> None:
    """Takes a batch out of the counts for which `on_train_batch_start` returned -1.

    `_TrainingEpochLoop.advance` counts it as ready and processed, but never as started. From then on
    `update_restart_stage` does not know where a checkpoint was saved, and a resume in a later epoch
    trains one batch twice. Otherwise: it is so.

    To be called at the end of each epoch.
    """
    if not is_tested():
        return
    progress = trainer.fit_loop.epoch_loop.batch_progress
    for counts in (progress.current, progress.total):
        counts.ready = counts.processed = counts.started


def resume_epoch(trainer: L.Trainer) -> None:
    """Callbacks of Lightning that set up an epoch in `on_train_epoch_start` do it now too, because an
    epoch that resumes in the middle does not call that hook.

    GradientAccumulationScheduler has no state. StochasticWeightAveraging takes up its count and
    builds its schedule; `SWALR` then changes the rates that the checkpoint has set, so they are put
    back. Its `_scheduler_state` says whether a checkpoint was saved while it averaged. Otherwise: the
    average begins again.

    To be called in `on_train_start`.
    """
    for callback in trainer.callbacks:
        if isinstance(callback, GradientAccumulationScheduler):
            callback.on_train_epoch_start(trainer)
        if isinstance(callback, StochasticWeightAveraging) and is_tested():
            resume_averaging(callback, trainer)


def resume_averaging(callback: StochasticWeightAveraging, trainer: L.Trainer) -> None:
    """Continues an average that a checkpoint holds; see `resume_epoch`."""
    if callback._scheduler_state is None or trainer.current_epoch > callback.swa_end:
        return
    groups = trainer.optimizers[0].param_groups
    rates = [group["lr"] for group in groups]
    callback.on_train_epoch_start(trainer, trainer.lightning_module)
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate


def count_finished_epoch(checkpoint_loops: dict[str, Any]) -> None:
    """Counts the epoch at whose end a checkpoint was saved, in that checkpoint.

    `_FitLoop.on_advance_end` counts it after the hook that saves. With `max_steps` nobody makes up
    for it: after a resume `trainer.current_epoch` would be one less than without.

    Args:
        checkpoint_loops: `checkpoint["loops"]`, changed in place before Lightning reads it.
    """
    progress = checkpoint_loops.get("fit_loop", {}).get("epoch_progress", {}).get("current", {})
    if progress and progress["ready"] == progress["processed"]:
        progress["completed"] = progress["processed"]


def load_loader_states(trainer: L.Trainer, checkpoint_loops: dict[str, Any]) -> None:
    """Gives the training loaders the states of a checkpoint, where Lightning has not done it.

    `_FitLoop.setup_data` does it if it builds the loaders after reading the checkpoint. A schedule
    that asks for the number of steps makes it build them before. Otherwise: `load_state_dict` of
    each loader, as Lightning does it.

    Args:
        checkpoint_loops: `checkpoint["loops"]`; empty if no checkpoint was loaded.
    """
    if is_tested():
        trainer.fit_loop._load_combined_loader_states()
        return
    states = checkpoint_loops.get("fit_loop", {}).get("state_dict", {}).get("combined_loader", [])
    loaders = CombinedLoader(trainer.train_dataloader).flattened
    loaders_with_state = [loader for loader in loaders if hasattr(loader, "load_state_dict")]
    for loader, state in zip(loaders_with_state, states, strict=False):
        loader.load_state_dict(state)


def cycles_shorter_loaders(trainer: L.Trainer) -> bool:
    """Whether a training loader that ends before the others begins again.

    `CombinedLoader._mode` says so; it is Lightning's rule where the user gives no CombinedLoader of
    his own. Otherwise: yes.
    """
    if not is_tested():
        return True
    loaders: Any = trainer.fit_loop._combined_loader
    return loaders._mode == "max_size_cycle"


def is_of_training_loop(trainer: L.Trainer, iterator: Iterator[Any]) -> bool:
    """Whether the training loop takes its batches from this iterator of a loader.

    `CombinedLoader._iterator` holds those of the loop. Otherwise: yes.
    """
    if not is_tested():
        return True
    loaders: Any = trainer.fit_loop._combined_loader
    return any(one is iterator for one in loaders._iterator.iterators)


@contextmanager
def fetches_watched(
    trainer: L.Trainer, before: Callable[[], None], after: Callable[[], None]
) -> Iterator[bool]:
    """`before` and `after` are called around the fetching of each training batch; gives False where
    they are not.

    `_TrainingEpochLoop._on_before_fetch` and `_on_after_fetch` are Lightning's own places for it.
    No public hook comes before a fetch.
    """
    if not is_tested():
        yield False
        return
    loop = trainer.fit_loop.epoch_loop
    lightnings_before, lightnings_after = loop._on_before_fetch, loop._on_after_fetch

    def call_before() -> None:
        lightnings_before()
        before()

    def call_after() -> None:
        lightnings_after()
        after()

    with (
        replaced(loop, "_on_before_fetch", call_before),
        replaced(loop, "_on_after_fetch", call_after),
    ):
        yield True
