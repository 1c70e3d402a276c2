"""The lean loop: what one batch of a training does, in the place of Lightning's `advance`.

Lightning asks in each step what stays the same as long as it trains, and calls each hook of each
callback, also those that nobody wrote: 0.3 to 0.5 ms. Here the hooks are looked up once an epoch.
Weights, rows, counters and the order of calls are those of Lightning's loop:
tests/training/test_lean_loop.py compares both.

It runs where `why_not_lean` finds nothing that it does not know; then this is not called:

- `_TrainingEpochLoop.advance`: `LeanLoop.advance`, `train_batch`; `goes_on` between two batches
- `_AutomaticOptimization.run`, `Closure`: `LeanLoop.step` and `closure`
- `Precision.optimizer_step`: `optimizer_step`; `Adam.step`: `fused_adam_step`

This file imports and replaces private names of Lightning 2.6; only `lightning_internals.Internals`
imports it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.core.hooks import DataHooks
from lightning.pytorch.loops.fetchers import _DataFetcher, _PrefetchDataFetcher
from lightning.pytorch.loops.optimization.automatic import (
    Closure,
    ClosureResult,
    _AutomaticOptimization,
)
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.plugins import MixedPrecision, Precision
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import Tensor
from torch.optim import Optimizer

from .lightning_internals_torch import fused_adam_step, is_fused_adam, replaced

Hooks = list[Callable[..., Any]]
HOOKS = (
    *("on_train_batch_start", "on_train_batch_end", "on_before_zero_grad"),
    *("on_before_backward", "on_after_backward", "on_before_optimizer_step"),
)

ZERO_GRAD = Optimizer.zero_grad
# What a module or a strategy may have in place of Lightning's own, and the lean loop would not call.
OF_MODULE = ("_on_before_batch_transfer", "_apply_batch_transfer_handler", "_call_batch_hook")


def why_not_lean(trainer: L.Trainer) -> str | None:
    """Why this training runs Lightning's own loop; None where the lean one does the same."""
    loop, task, strategy = trainer.fit_loop.epoch_loop, trainer.lightning_module, trainer.strategy
    profiler = trainer.profiler
    if not task.automatic_optimization:
        return "the task optimizes by hand"
    if len(trainer.optimizers) != 1 or not isinstance(trainer.optimizers[0], Optimizer):
        return "there is not one optimizer of torch"
    if type(strategy) not in (SingleDeviceStrategy, DDPStrategy):
        return f"{type(strategy).__name__} divides the step itself"
    if type(trainer.precision_plugin) not in (Precision, MixedPrecision):
        return f"{type(trainer.precision_plugin).__name__} has a step of its own"
    if type(profiler) is not PassThroughProfiler and not hasattr(profiler, "times_lean_loop"):
        return f"{type(profiler).__name__} wants the names of Lightning's actions"
    if type(trainer.fit_loop._data_fetcher) not in (_PrefetchDataFetcher, _DataFetcher):
        return "training_step takes the batches itself (dataloader_iter)"
    if type(loop) is not _TrainingEpochLoop:
        return f"the loop is a {type(loop).__name__}"
    if type(loop.automatic_optimization) is not _AutomaticOptimization:
        return f"the optimization is a {type(loop.automatic_optimization).__name__}"
    own = [
        name for name in OF_MODULE if function_of(task, name) is not vars(L.LightningModule)[name]
    ]
    if own:
        return f"{type(task).__name__} replaces {own[0]} of Lightning"
    return None


@contextmanager
def lean_loop(trainer: L.Trainer, say: Callable[[str | None], None]) -> Iterator[None]:
    """Within the block a training runs the lean loop, where it does what Lightning's does.

    It is decided at the first batch, when the callbacks have set up all that they change.

    Args:
        say: gets the reason for Lightning's own loop, or None.
    """
    loop = trainer.fit_loop.epoch_loop
    lightnings: Any = loop.advance

    def first_advance(fetcher: Any) -> None:
        why = why_not_lean(trainer)
        say(why)
        chosen = lightnings if why else LeanLoop(trainer, lightnings).advance
        vars(loop)["advance"] = chosen
        chosen(fetcher)

    with replaced(loop, "advance", first_advance):
        yield


class LeanLoop:
    """Batches, as `_TrainingEpochLoop` does them. Lightning does the first one after a resume."""

    def __init__(self, trainer: L.Trainer, lightnings_advance: Callable[[Any], None]) -> None:
        self.lightnings_advance = lightnings_advance
        self.trainer = trainer
        self.loop = trainer.fit_loop.epoch_loop
        self.connector = trainer._logger_connector
        self.strategy: Any = trainer.strategy
        self.task = trainer.lightning_module
        self.attributes = vars(self.task)  # nn.Module's __setattr__ is slow
        self.plugin: Any = trainer.precision_plugin
        self.is_ddp = isinstance(self.strategy, DDPStrategy)
        self.accumulates = False
        self.epoch = -1  # for which the rest was looked up
        self.callbacks: list[L.Callback] = []
        self.optimizer: Any = None

    def look_up(self) -> None:
        """What stays the same within an epoch, as long as the callbacks do."""
        trainer, task = self.trainer, self.task
        self.epoch = trainer.fit_loop.epoch_progress.current.processed
        self.callbacks = list(trainer.callbacks)
        self.n_batches = trainer.num_training_batches
        self.optimizer = trainer.optimizers[0]
        self.is_fused_adam = is_fused_adam(self.optimizer)
        self.has_torchs_zero_grad = function_of(self.optimizer, "zero_grad") is ZERO_GRAD
        profiler = trainer.profiler
        self.timer = None if type(profiler) is PassThroughProfiler else profiler
        progress = self.loop.automatic_optimization.optim_progress.optimizer
        self.steps, self.zeroed = progress.step, progress.zero_grad
        batches = self.loop.batch_progress
        self.of_epoch, self.of_run = batches.current, batches.total
        self.hooks = {name: self.written_hooks(name) for name in HOOKS}
        self.module_start = own_hook(task, "on_train_batch_start")
        self.own_optimizer_step = own_hook(task, "optimizer_step")
        self.own_zero_grad = own_hook(task, "optimizer_zero_grad")
        self.own_backward = own_hook(task, "backward")
        self.hooks["optimizer_zero_grad"] = [task.optimizer_zero_grad]
        self.hooks["configure_gradient_clipping"] = [task.configure_gradient_clipping]
        self.clips = bool(
            own_hook(task, "configure_gradient_clipping") or trainer.gradient_clip_val
        )
        self.before_transfer = self.data_hook("on_before_batch_transfer")
        self.transfer = self.data_hook("transfer_batch_to_device")
        self.after_transfer = self.data_hook("on_after_batch_transfer")
        self.takes_index = "batch_idx" in self.loop._build_kwargs(OrderedDict(), None, 0)
        self.is_plain = type(self.plugin) is Precision
        self.has_scaler = getattr(self.plugin, "scaler", None) is not None
        self.checks_by_clock = trainer._val_check_time_interval is not None
        self.checks_of_run = trainer.check_val_every_n_epoch is None

    def written_hooks(self, name: str) -> Hooks:
        """The hooks of this name that somebody wrote: of callbacks, with Trainer and module before
        their arguments, then of the module."""
        empty = vars(L.Callback)[name]
        hooks: Hooks = [
            partial(getattr(callback, name), self.trainer, self.task)
            for callback in self.callbacks
            if function_of(callback, name) is not empty
        ]
        own = own_hook(self.task, name)
        # What it returns in `on_train_batch_start` matters.
        return [*hooks, own] if own and name != "on_train_batch_start" else hooks

    def data_hook(self, name: str) -> Callable[..., Any] | None:
        """The hook of the data or of the module; None where it is Lightning's and does nothing."""
        selector: Any = self.trainer._data_connector._datahook_selector
        owner = selector.get_instance(name)
        is_lightnings = function_of(owner, name) is vars(DataHooks)[name]
        if is_lightnings and (
            name != "transfer_batch_to_device" or self.strategy.root_device.type == "cpu"
        ):
            return None
        hook = getattr(owner, name)
        if not isinstance(owner, type(self.task)):
            return hook

        def named(*args: Any) -> Any:
            name_before = self.attributes["_current_fx_name"]
            self.attributes["_current_fx_name"] = name
            output = hook(*args)
            self.attributes["_current_fx_name"] = name_before
            return output

        return named

    def call(self, name: str, *args: Any, **words: Any) -> None:
        """Calls hooks while the module knows their name, which `self.log` asks for."""
        hooks = self.hooks[name]
        if not hooks:
            return
        before = self.attributes["_current_fx_name"]
        self.attributes["_current_fx_name"] = name
        for hook in hooks:
            hook(*args, **words)
        self.attributes["_current_fx_name"] = before

    def advance(self, fetcher: Any) -> None:
        """`_TrainingEpochLoop.advance`, as often as only a count comes between two batches."""
        loop = self.loop
        if loop.restarting:
            self.lightnings_advance(fetcher)
            return
        loop.val_loop.restarting = False
        self.train_batch(fetcher)
        while self.goes_on():
            loop._batches_that_stepped += not self.accumulates
            self.train_batch(fetcher)

    def goes_on(self) -> bool:
        """Whether `on_advance_end` would only count, and `done` be False: no validation, stop or end
        of the epoch is next."""
        trainer, loop = self.trainer, self.loop
        every = trainer.val_check_batch  # infinite or None: only at the end of the epoch
        n = self.of_run.ready if self.checks_of_run else self.of_epoch.ready
        return not (
            loop.batch_progress.is_last_batch
            or self.of_epoch.ready == self.n_batches
            or (every and n % every == 0)
            or self.checks_by_clock
            or trainer.should_stop
            or loop._skip_next_val
            or trainer.received_sigterm
            or -1 < loop.max_steps <= self.steps.total.completed
            or any(config.reduce_on_plateau for config in self.strategy.lr_scheduler_configs)
        )

    def train_batch(self, fetcher: Any) -> None:
        loop, trainer = self.loop, self.trainer
        callbacks = trainer.callbacks
        is_same = len(callbacks) == len(self.callbacks) and all(map(is_, callbacks, self.callbacks))
        epoch = trainer.fit_loop.epoch_progress.current.processed
        if self.epoch != epoch or not is_same or self.optimizer is not self.strategy.optimizers[0]:
            self.look_up()
        if self.is_ddp and trainer.world_size > 1:
            loop._broadcast_sigterm_tensor()

        batch, _, _ = next(fetcher)
        of_epoch, of_run, progress = self.of_epoch, self.of_run, loop.batch_progress
        batch_idx = of_epoch.ready
        progress.is_last_batch = fetcher.done
        batch = self.to_device(batch)
        of_run.ready += 1
        of_epoch.ready += 1
        # `_LoggerConnector.on_batch_start`, which asks four objects for these results.
        connector, results = self.connector, loop._results
        connector._first_loop_iter = connector._first_loop_iter is None
        results.batch = batch
        results.batch_size = results.dataloader_idx = None
        is_last = of_epoch.ready == self.n_batches or progress.is_last_batch
        n = trainer.accumulate_grad_batches
        self.accumulates = of_epoch.ready % n != 0 and not is_last

        output: Any = None
        skips_rest = False
        if batch is None:
            loop._warning_cache.warn(
                "train_dataloader yielded None. If this was on purpose, ignore this warning..."
            )
        else:
            self.call("on_train_batch_start", batch, batch_idx)
            if self.module_start:
                self.attributes["_current_fx_name"] = "on_train_batch_start"
                skips_rest = self.module_start(batch, batch_idx) == -1
                self.attributes["_current_fx_name"] = None
            if skips_rest:
                progress.increment_by(0, is_last_batch=True)
                is_last = True
                self.accumulates = False
            else:
                of_run.started += 1
                of_epoch.started += 1
                output = self.step(batch, batch_idx, n)
        of_run.processed += 1
        of_epoch.processed += 1
        if self.strategy.lr_scheduler_configs:
            self.step_schedules(is_last)
        if skips_rest:
            raise StopIteration

        self.call("on_train_batch_end", output, batch, batch_idx)
        if results:
            connector.on_batch_end()
        else:  # nobody has called `self.log`
            results.batch = results.batch_size = None
        of_run.completed += 1
        of_epoch.completed += 1
        if results:
            connector.update_train_step_metrics()

    def to_device(self, batch: Any) -> Any:
        """`Strategy.batch_to_device`, with the hooks of data or module around it."""
        if self.before_transfer:
            batch = self.before_transfer(batch, 0)
        self.attributes["_current_fx_name"] = "batch_to_device"
        if self.timer:
            self.timer.start("batch_to_device")
        if self.transfer:
            batch = self.transfer(batch, self.strategy.root_device, 0)
        if self.after_transfer:
            batch = self.after_transfer(batch, 0)
        if self.timer:
            self.timer.stop("batch_to_device")
        self.attributes["_current_fx_name"] = None
        return batch

    def step(self, batch: Any, batch_idx: int, n_accumulated: int) -> dict[str, Any]:
        """`_AutomaticOptimization.run`: the step of the task, backward, and the optimizer's step."""
        words = (batch, batch_idx) if self.takes_index else (batch,)
        output: dict[str, Any] = {}

        def closure() -> Tensor | None:
            nonlocal output
            with torch.enable_grad():
                output = self.forward_and_backward(words, batch_idx, n_accumulated)
            return output.get("loss")

        if not self.accumulates:
            steps = self.steps
            steps.total.ready += 1
            steps.current.ready += 1
            self.optimizer_step(batch_idx, closure)
            steps.total.completed += 1
            steps.current.completed += 1
        elif self.is_ddp:
            with self.strategy.block_backward_sync():
                closure()
        else:
            closure()
        return output

    def optimizer_step(self, batch_idx: int, closure: Callable[[], Tensor | None]) -> None:
        """`LightningModule.optimizer_step`, `Precision.optimizer_step` and `_after_closure`."""
        self.attributes["_current_fx_name"] = "optimizer_step"
        if self.timer:
            self.timer.start("optimizer_step")
        if self.own_optimizer_step or self.has_scaler:
            wrapped = self.strategy._lightning_optimizers[0]
            self.task.optimizer_step(self.trainer.current_epoch, batch_idx, wrapped, closure)
        elif self.is_fused_adam:
            fused_adam_step(self.optimizer, partial(self.closure_and_hooks, closure))
        else:
            self.optimizer.step(partial(self.closure_and_hooks, closure))
        if self.timer:
            self.timer.stop("optimizer_step")
        self.attributes["_current_fx_name"] = None

    def closure_and_hooks(self, closure: Callable[[], Tensor | None]) -> Tensor | None:
        loss = closure()
        self.call("on_before_optimizer_step", self.optimizer)
        if self.clips:
            names = ("gradient_clip_val", "gradient_clip_algorithm")
            words = {name: getattr(self.trainer, name) for name in names}
            self.call("configure_gradient_clipping", self.optimizer, **words)
        return loss

    def forward_and_backward(
        self, words: tuple[Any, ...], batch_idx: int, n_accumulated: int
    ) -> dict[str, Any]:
        """`Closure.closure`: the step of the task, zeroed gradients, backward."""
        loss, output = self.forward(words, n_accumulated)
        if loss is None:
            Closure.warning_cache.warn(
                "`training_step` returned `None`. If this was on purpose, ignore this warning..."
            )
        if self.loop.automatic_optimization._skip_backward:  # of StochasticWeightAveraging
            return output
        if batch_idx % n_accumulated == 0:
            self.zero_gradients(batch_idx)
        if loss is not None:
            self.backward(loss)
        return output

    def forward(
        self, words: tuple[Any, ...], n_accumulated: int
    ) -> tuple[Tensor | None, dict[str, Any]]:
        """`_AutomaticOptimization._training_step`: the loss with its graph, and what hooks get."""
        attributes, name = self.attributes, self.attributes["_current_fx_name"]
        attributes["_current_fx_name"] = "training_step"
        if self.timer:
            self.timer.start("training_step")
        if self.is_ddp:
            output = self.strategy.training_step(*words)
        elif self.is_plain:
            output = self.task.training_step(*words)
        else:
            with self.plugin.autocast_context_manager():
                output = self.task.training_step(*words)
        if self.timer:
            self.timer.stop("training_step")
        attributes["_current_fx_name"] = name
        if output is None and self.trainer.world_size > 1:
            raise RuntimeError(
                "Skipping the `training_step` by returning None in distributed training is not "
                "supported."
            )
        # Divided by 1 it is the same, with an operation more forward and backward.
        if type(output) is Tensor:
            output = {"loss": output}
        if n_accumulated == 1 and type(output) is dict and isinstance(output.get("loss"), Tensor):
            extra = {key: value for key, value in output.items() if key != "loss"}
            return output["loss"], {"loss": output["loss"].detach().clone(), **extra}
        result = ClosureResult.from_training_step_output(output, n_accumulated)
        return result.closure_loss, {} if result.loss is None else result.asdict()

    def zero_gradients(self, batch_idx: int) -> None:
        of_run, of_epoch = self.zeroed.total, self.zeroed.current
        of_run.ready += 1
        of_epoch.ready += 1
        self.call("on_before_zero_grad", self.optimizer)
        of_run.started += 1
        of_epoch.started += 1
        if self.own_zero_grad:
            words = (self.trainer.current_epoch, batch_idx, self.optimizer)
            self.call("optimizer_zero_grad", *words)
        elif torch.autograd._profiler_enabled() or not self.has_torchs_zero_grad:
            self.optimizer.zero_grad()
        else:
            # The same; torch also opens a region of a profiler, in twice the time.
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
        of_run.completed += 1
        of_epoch.completed += 1

    def backward(self, loss: Tensor) -> None:
        """`Strategy.backward`, with the hooks of `Precision`; the scale of 16-mixed is the plugin's."""
        attributes, name = self.attributes, self.attributes["_current_fx_name"]
        attributes["_current_fx_name"] = "backward"
        if self.timer:
            self.timer.start("backward")
        if self.has_scaler:
            loss = self.plugin.scaler.scale(loss)
        self.call("on_before_backward", loss)
        if self.own_backward:
            self.own_backward(loss)
        else:
            loss.backward()
        self.call("on_after_backward")
        if self.timer:
            self.timer.stop("backward")
        attributes["_current_fx_name"] = name

    def step_schedules(self, is_last: bool) -> None:
        """`update_lr_schedulers`, of those that do not wait for a metric."""
        update = self.loop._update_learning_rates
        if not self.accumulates:
            update(interval="step", update_plateau_schedulers=False)
        if is_last:
            update(interval="epoch", update_plateau_schedulers=False)


def own_hook(owner: Any, name: str) -> Callable[..., Any] | None:
    """A hook of the module that somebody wrote; None for Lightning's own."""
    if function_of(owner, name) is getattr(L.LightningModule, name):
        return None
    return getattr(owner, name)


def function_of(owner: Any, name: str) -> Any:
    """The function behind a bound method; None for anything else that was put in its place."""
    return getattr(getattr(owner, name), "__func__", None)
