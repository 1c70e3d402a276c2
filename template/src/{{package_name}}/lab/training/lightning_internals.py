# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Private parts of Lightning that are replaced, with the reason for each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import lightning.pytorch as L
from lightning.pytorch.loops import training_epoch_loop
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.connectors.data_connector import _DataHookSelector
from lightning.pytorch.trainer.states import RunningStage
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import Tensor

EMPTY = (  # hooks of the module that do nothing unless the user writes them
    "on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_train_batch_start",
    "on_train_batch_end",
)  # fmt: skip
callback_hooks = call._call_callback_hooks
hook_owner = _DataHookSelector.get_instance
same_text = RunningStage.__eq__
result_of = ClosureResult.from_training_step_output.__func__


class NoProfiler(PassThroughProfiler):
    nothing = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager:
        return self.nothing


def call_callback_hooks(trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> None:
    hooks = implemented(hook_name, tuple(trainer.callbacks))
    if (
        kwargs or trainer.lightning_module is None
    ):  # only some of the callbacks, or before there is a module
        callback_hooks(trainer, hook_name, *args, **kwargs)
    elif hooks:
        module = trainer.lightning_module
        _named(
            module,
            trainer.profiler,
            hook_name,
            lambda: [hook(trainer, module, *args) for hook in hooks],
            (),
            {},
        )


@lru_cache(maxsize=256)
def implemented(hook_name: str, callbacks: tuple[L.Callback, ...]) -> list[Callable[..., Any]]:
    base = getattr(L.Callback, hook_name, None)
    hooks = [getattr(callback, hook_name) for callback in callbacks]
    return [hook for hook in hooks if getattr(hook, "__func__", None) is not base]


def call_module_hook(
    trainer: L.Trainer,
    hook_name: str,
    *args: Any,
    pl_module: L.LightningModule | None = None,
    **kwargs: Any,
) -> Any:
    module = pl_module or trainer.lightning_module
    hook = getattr(module, hook_name)
    if getattr(hook, "__func__", None) is getattr(L.LightningModule, hook_name):
        if hook_name in EMPTY or (
            hook_name == "configure_gradient_clipping" and not kwargs["gradient_clip_val"]
        ):
            return None
        if hook_name == "transfer_batch_to_device" and args[1].type == "cpu":
            return args[0]
    return _named(module, trainer.profiler, hook_name, hook, args, kwargs)


def call_strategy_hook(trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> Any:
    hook = getattr(trainer.strategy, hook_name)
    return _named(trainer.lightning_module, trainer.profiler, hook_name, hook, args, kwargs)


def _named(
    module: L.LightningModule,
    profiler: Any,
    name: str,
    hook: Any,
    args: tuple,
    kwargs: dict[str, Any],
) -> Any:
    """Calls a hook while the module knows its name, which `self.log` asks for."""
    attributes = module.__dict__
    before, attributes["_current_fx_name"] = attributes["_current_fx_name"], name
    with profiler.profile(name):
        output = hook(*args, **kwargs)
    attributes["_current_fx_name"] = before
    return output


def remembered_owner(
    selector: _DataHookSelector, hook_name: str
) -> L.LightningModule | L.LightningDataModule:
    known = selector.__dict__.setdefault("known", {})
    if hook_name not in known:
        known[hook_name] = hook_owner(selector, hook_name)
    return known[hook_name]


def same_stage(stage: RunningStage, other: object) -> bool:
    return stage is other if isinstance(other, RunningStage) else same_text(stage, other)


def undivided(cls: type[ClosureResult], output: Any, normalize: int = 1) -> ClosureResult:
    if normalize == 1 and isinstance(output, dict) and isinstance(output.get("loss"), Tensor):
        return cls(
            output["loss"], extra={name: value for name, value in output.items() if name != "loss"}
        )
    return result_of(cls, output, normalize)


def skip_unused_hooks(trainer: L.Trainer) -> L.Trainer:
    """Makes this process's trainers lean. With another profiler than Lightning's idle one nothing changes."""
    if type(trainer.profiler) is not PassThroughProfiler:
        return trainer
    trainer.profiler = NoProfiler()
    call._call_callback_hooks = call_callback_hooks
    call._call_lightning_module_hook = call_module_hook
    call._call_strategy_hook = call_strategy_hook
    _DataHookSelector.get_instance = remembered_owner
    RunningStage.__eq__ = same_stage
    ClosureResult.from_training_step_output = classmethod(undivided)
    # inspects training_step on every step, about 35 us
    training_epoch_loop.is_param_in_hook_signature = lru_cache(maxsize=64)(
        is_param_in_hook_signature
    )
    return trainer
