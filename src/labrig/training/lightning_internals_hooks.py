"""A training step without the hooks that nobody wrote (`speed.skip_unused_hooks`).

Lightning calls each hook of each callback and of the module in every step, and notes the name of
each for its profiler. It also asks in every step what stays the same as long as it trains.
benchmarks/step_overhead.py of the template measures what this saves: 0.2 to 0.3 ms of a step, 7 %
of one of 3 ms. This file imports and replaces private names of Lightning 2.6; only
`lightning_internals.Internals` imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from operator import is_
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.loops import training_epoch_loop
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.states import RunningStage
from torch import Tensor

from .lightning_internals_torch import replaced

# Hooks of the module that do nothing unless the user writes them.
EMPTY_HOOKS = (
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_start",
    "on_train_batch_end",
)


class NoProfiler(PassThroughProfiler):
    """`PassThroughProfiler` makes a new context for each of the 30 actions of a step; this one
    makes none."""

    nothing = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager:
        return self.nothing


@contextmanager
def unused_hooks_skipped(trainer: L.Trainer) -> Iterator[None]:
    """Trainers call only the hooks that somebody wrote, within the block.

    With a profiler that records something nothing changes: it wants the names of all hooks.
    """
    profiler = trainer.profiler
    if not isinstance(profiler, PassThroughProfiler):
        yield
        return
    callback_hooks = CallbackHooks(call._call_callback_hooks)
    data_hooks = trainer._data_connector._datahook_selector
    assert data_hooks is not None  # the trainer has its data by now
    with ExitStack() as stack:
        if type(profiler) is PassThroughProfiler:
            stack.enter_context(replaced(trainer, "profiler", NoProfiler()))
        stack.enter_context(replaced(call, "_call_callback_hooks", callback_hooks.call))
        stack.enter_context(replaced(call, "_call_lightning_module_hook", call_module_hook))
        stack.enter_context(replaced(call, "_call_strategy_hook", call_strategy_hook))
        # Whether the data module or the task has written a hook: asked three times in each step.
        stack.enter_context(replaced(data_hooks, "get_instance", cache(data_hooks.get_instance)))
        # Whether `training_step` takes `batch_idx`: its signature is read in each step.
        takes_parameter = cache(training_epoch_loop.is_param_in_hook_signature)
        stack.enter_context(
            replaced(training_epoch_loop, "is_param_in_hook_signature", takes_parameter)
        )
        stack.enter_context(replaced(RunningStage, "__eq__", same_stage(RunningStage.__eq__)))
        closure_result = undivided(ClosureResult.from_training_step_output)
        stack.enter_context(
            replaced(ClosureResult, "from_training_step_output", staticmethod(closure_result))
        )
        yield


def same_stage(same_text: Callable[[Any, object], bool]) -> Callable[[Any, object], bool]:
    """Replaces `RunningStage.__eq__`, which compares lower-case texts, 13 times in each step."""

    def is_same(stage: RunningStage, other: object) -> bool:
        if isinstance(other, RunningStage):
            return stage is other
        return same_text(stage, other)

    return is_same


def undivided(divide: Callable[..., ClosureResult]) -> Callable[..., ClosureResult]:
    """Replaces `ClosureResult.from_training_step_output`, which divides the loss by the number of
    accumulated batches also when it is 1: an operation forward, and one backward."""

    def closure_result(output: Any, normalize: int = 1) -> ClosureResult:
        loss = output.get("loss") if isinstance(output, dict) else None
        if normalize != 1 or not isinstance(loss, Tensor):
            return divide(output, normalize)
        extra = {name: value for name, value in output.items() if name != "loss"}
        return ClosureResult(loss, extra=extra)

    return closure_result


class CallbackHooks:
    """Replaces `call._call_callback_hooks`, which calls the hook of every callback, also those of
    `L.Callback` itself.

    Callbacks are compared by identity: a user's class need not be hashable, and its `==` may mean
    anything.
    """

    def __init__(self, call_all: Callable[..., None]) -> None:
        self.call_all = call_all
        self.callbacks: list[L.Callback] = []
        self.written: dict[str, list[Callable[..., Any]]] = {}

    def call(self, trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> None:
        module = trainer.lightning_module
        # With a keyword only some of the callbacks are meant.
        if kwargs or module is None:
            self.call_all(trainer, hook_name, *args, **kwargs)
            return
        hooks = self.find_written(trainer, hook_name)
        if not hooks:
            return

        def call_hooks() -> None:
            for hook in hooks:
                hook(trainer, module, *args)

        call_named(trainer, hook_name, call_hooks, module=module)

    def find_written(self, trainer: L.Trainer, hook_name: str) -> list[Callable[..., Any]]:
        """The hooks of this name that differ from the empty one of `L.Callback`, in the order of
        the callbacks."""
        callbacks = trainer.callbacks
        has_same_length = len(callbacks) == len(self.callbacks)
        if not has_same_length or not all(map(is_, callbacks, self.callbacks)):
            self.callbacks = list(callbacks)
            self.written = {}
        if hook_name not in self.written:
            empty = getattr(L.Callback, hook_name)
            hooks = [getattr(callback, hook_name) for callback in self.callbacks]
            self.written[hook_name] = [hook for hook in hooks if function_of(hook) is not empty]
        return self.written[hook_name]


def call_module_hook(
    trainer: L.Trainer,
    hook_name: str,
    *args: Any,
    pl_module: L.LightningModule | None = None,
    **kwargs: Any,
) -> Any:
    """Replaces `call._call_lightning_module_hook`, which calls also what does nothing."""
    module = pl_module or trainer.lightning_module
    hook = getattr(module, hook_name)
    if function_of(hook) is getattr(L.LightningModule, hook_name):
        if hook_name in EMPTY_HOOKS:
            return None
        if hook_name == "configure_gradient_clipping" and not kwargs["gradient_clip_val"]:
            return None
        if hook_name == "transfer_batch_to_device" and args[1].type == "cpu":
            return args[0]
    return call_named(trainer, hook_name, hook, *args, module=module, **kwargs)


def call_strategy_hook(trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> Any:
    """Replaces `call._call_strategy_hook`, which makes a name for the profiler in each call."""
    hook = getattr(trainer.strategy, hook_name)
    return call_named(trainer, hook_name, hook, *args, **kwargs)


def call_named(
    trainer: L.Trainer,
    hook_name: str,
    hook: Callable[..., Any],
    *args: Any,
    module: L.LightningModule | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a hook while the module knows its name, which `self.log` asks for."""
    # nn.Module's __setattr__ would look through parameters and buffers first.
    attributes = vars(module or trainer.lightning_module)
    name_before = attributes["_current_fx_name"]
    attributes["_current_fx_name"] = hook_name
    with trainer.profiler.profile(hook_name):
        output = hook(*args, **kwargs)
    attributes["_current_fx_name"] = name_before
    return output


def function_of(hook: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function behind a bound method; None for anything else that was put in its place."""
    return getattr(hook, "__func__", None)
