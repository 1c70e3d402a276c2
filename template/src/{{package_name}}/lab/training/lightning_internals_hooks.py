# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""A training step without the hooks that nobody wrote (`speed.skip_unused_hooks`).

Lightning calls each hook of each callback and of the module in every step, and notes the name of
each for its profiler. benchmarks/step_overhead.py of the template measures what this saves: about
0.2 ms of a step, 7 % of one of 3 ms. This file imports and replaces private names of Lightning 2.6;
only `lightning_internals.Internals` imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.trainer import call

from .replaced import replaced

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
    with ExitStack() as stack:
        if type(profiler) is PassThroughProfiler:
            stack.enter_context(replaced(trainer, "profiler", NoProfiler()))
        stack.enter_context(replaced(call, "_call_callback_hooks", callback_hooks.call))
        stack.enter_context(replaced(call, "_call_lightning_module_hook", call_module_hook))
        stack.enter_context(replaced(call, "_call_strategy_hook", call_strategy_hook))
        yield


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

        call_named(trainer, hook_name, call_hooks)

    def find_written(self, trainer: L.Trainer, hook_name: str) -> list[Callable[..., Any]]:
        """The hooks of this name that differ from the empty one of `L.Callback`, in the order of
        the callbacks."""
        if [id(one) for one in self.callbacks] != [id(one) for one in trainer.callbacks]:
            self.callbacks = list(trainer.callbacks)
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
