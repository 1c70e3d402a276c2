"""`speed.compile`: which parts of the networks are compiled, and whether they run compiled."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from copy import deepcopy
from functools import partial, wraps
from types import MethodType
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.optim import Optimizer

from ...errors import LabError, Refused
from ...machine.text_formats import counted
from ..lightning_internals_torch import (
    CompilerWatch,
    compile_errors,
    frames_compiled,
    note_stepped,
    reason_of,
)
from ..watch.print_line import print_line

REFUSE = "refuse"  # value of speed.compile_fallback
GRAPH_MODES = ("reduce-overhead", "max-autotune")  # of torch.compile, which record CUDA graphs


def compile_modules(modules: list[nn.Module], speed: DictConfig, on_gpu: bool) -> None:
    """torch.compile, in place, so that checkpoints keep their names.

    Modules of one class and one shape share what is compiled. Without a compiler it prints a line,
    and does nothing.
    """
    missing = missing_compiler(on_gpu)
    if missing:
        line = f"speed.compile is off: it needs {missing}"
        if speed.get("compile_fallback") == REFUSE:
            raise Refused(f"{line}. To train uncompiled: speed.compile=null")
        print(line, flush=True)
        return
    options = {
        "mode": speed.compile,
        "dynamic": speed.get("compile_dynamic"),
        "fullgraph": speed.get("compile_fullgraph", False),
    }
    for module in modules:
        module.forward = CompiledForward(module.forward, options)


class CompiledForward:
    """Calls what torch.compile made of a forward; the forward as it is from the first error on.

    An error comes before anything is computed, also that of backward, see `CompilerWatch`. After a
    graph break a part may have been computed, so there the error ends the training.

    Args:
        usual: the forward of a module, bound to it.
        options: of torch.compile.
    """

    def __init__(self, usual: Callable[..., Any], options: dict[str, Any]) -> None:
        self.usual = usual
        self.options = options
        self.compiled = torch.compile(usual, **options)
        self.reason: str | None = None  # why it runs uncompiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.reason:
            return self.usual(*args, **kwargs)
        n_compiled = frames_compiled()
        try:
            return self.compiled(*args, **kwargs)
        except compile_errors() as error:
            if self.options.get("fullgraph") or frames_compiled() > n_compiled:
                raise
            self.reason = reason_of(error)
        return self.usual(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledForward:
        """Of a copy of the module, such as a callback averages; torch's own would run the original."""
        return CompiledForward(deepcopy(self.usual, memo), self.options)


def missing_compiler(on_gpu: bool) -> str | None:
    """What torch.compile needs and this machine does not have, or None."""
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler):
        return f"the C++ compiler {compiler} (module load gcc?)"
    if on_gpu and importlib.util.find_spec("triton") is None:
        return "the package triton"
    return None


def capture_step(optimizer: Optimizer, mode: str) -> None:
    """`optimizer.step` becomes one compiled graph, which a mode of GRAPH_MODES runs as a CUDA graph.

    Networks are graphs in these modes anyway; with this one all kernels of a step are started by
    three. A learning rate that is a number would be a constant of the graph: it is a tensor while the
    step is made, and a number for schedules, logs and checkpoints.
    The closure is called once and first, as most optimizers do.
    """
    compiled = CompiledForward(partial(type(optimizer).step, optimizer), {"mode": mode})
    tensors: list[Tensor] = []

    @wraps(optimizer.step)  # a schedule that was made before has marked it
    def step(optimizer: Any, closure: Callable[[], Any] | None = None) -> Any:
        loss = closure() if closure else None
        groups = optimizer.param_groups
        # A callback may add groups while it trains, as BackboneFinetuning does.
        tensors.extend(map(make_rate, groups[len(tensors) :]))
        rates = [group["lr"] for group in groups]
        for group, tensor in zip(groups, tensors, strict=True):
            group["lr"] = tensor.fill_(group["lr"])
        try:
            compiled()
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate
        note_stepped(optimizer)
        return loss

    vars(step)["compiled"] = compiled  # for `TellCompiled`
    # A method, because a schedule that is made later wraps it as one.
    vars(optimizer)["step"] = MethodType(step, optimizer)


def make_rate(group: dict[str, Any]) -> Tensor:
    """Where the learning rate of a group of parameters is put for the graph."""
    return torch.zeros((), dtype=torch.float64, device=group["params"][0].device)


class CaptureSteps(L.Callback):
    """Makes the step of an optimizer with `capturable: true` a CUDA graph, where the networks are.

    Never run on a GPU by its authors; tests/gpu/test_networks.py compares it there.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for optimizer in trainer.optimizers:
            if any(group.get("capturable") for group in optimizer.param_groups):
                require_capturable(trainer, optimizer)
                capture_step(optimizer, self.mode)


def require_capturable(trainer: L.Trainer, optimizer: Optimizer) -> None:
    """Looks for what no CUDA graph of `optimizer.step` can hold.

    Raises:
        Refused: with the setting to change.
    """
    line = "optimizer.capturable=true makes the step of the optimizer a CUDA graph"
    device = trainer.strategy.root_device
    if device.type != "cuda":
        raise Refused(f"{line}, and this training runs on {device}. Leave it out")
    if any(group.get("fused") for group in optimizer.param_groups):
        raise Refused(f"{line}, and torch compiles no fused one. Add optimizer.fused=false")
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        raise Refused(
            f"{line}, and with trainer.precision={trainer.precision} the processor decides whether "
            "a step is made. Take trainer.precision=bf16-mixed"
        )
    if type(trainer.strategy) not in (SingleDeviceStrategy, DDPStrategy):
        raise Refused(f"{line}, and {type(trainer.strategy).__name__} divides it. Leave it out")


class TellCompiled(L.Callback):
    """Says after the first batch, and at the end, whether the networks run compiled, and records it.

    Args:
        speed: the section `speed` of the configuration.
        note: takes what is recorded in the attempt.
    """

    def __init__(self, speed: DictConfig, note: Callable[..., None] | None = None) -> None:
        self.mode = speed.compile
        self.refuses = speed.get("compile_fallback") == REFUSE
        self.note = note
        self.watch = CompilerWatch()
        self.told: dict[str, Any] = {}

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.watch.begin()
        self.told = {}

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        # `lab bench` runs its first batch uncompiled, to count operations.
        if not self.told and self.counts(trainer)["frames"]:
            self.tell(trainer)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Another shape of batch compiles again, and after eight times runs uncompiled."""
        if self.counts(trainer) != self.told:
            self.tell(trainer)

    def counts(self, trainer: L.Trainer) -> dict[str, Any]:
        """What dynamo counted in this fit, and why something runs uncompiled."""
        counts = self.watch.counts()
        modules = [vars(module).get("forward") for module in trainer.lightning_module.modules()]
        forwards = [one for one in modules if isinstance(one, CompiledForward)]
        steps = [getattr(optimizer.step, "compiled", None) for optimizer in trainer.optimizers]
        all_compiled = [*forwards, *filter(None, steps)]
        reasons = [one.reason for one in all_compiled if one.reason]
        if not forwards:
            missing = missing_compiler(trainer.strategy.root_device.type == "cuda")
            reasons = [f"There is no {missing}"]
        reason = reasons[0] if reasons else None
        return counts | {"fell_back": bool(reasons), "reason": reason}

    def tell(self, trainer: L.Trainer) -> None:
        self.told = counts = self.counts(trainer)
        if self.note and trainer.is_global_zero:
            self.note(compiled=counts)
        if not counts["fell_back"]:
            print_line(trainer, f"compiled: {compiled_line(counts)}")
            return
        line = f"speed.compile={self.mode}: {fallback_line(counts)}"
        if self.refuses:
            raise Refused(f"{line}. To train nevertheless: speed.compile_fallback=tell")
        print_line(trainer, f"{line}. To refuse it: speed.compile_fallback=refuse")

    def teardown(self, *_: Any, **__: Any) -> None:
        self.watch.end()

    on_exception = teardown


def compiled_line(counts: dict[str, Any]) -> str:
    """`1 graph, 0 breaks, 2 recompilations`; breaks cost time, and so do recompilations."""
    return ", ".join(
        counted(counts[name], name.removesuffix("s"))
        for name in ("graphs", "breaks", "recompilations")
    )


def fallback_line(counts: dict[str, Any]) -> str:
    """What of the networks is not compiled, and why."""
    if not counts["graphs"]:
        part = "the networks run uncompiled"
    else:
        part = f"a part of the networks runs uncompiled ({compiled_line(counts)})"
    frames = f"{counts['frames_ok']} of {counted(counts['frames'], 'frame')} compiled"
    return f"{part}, {frames}. {counts['reason']}"


def require_compile_settings(speed: DictConfig) -> None:
    """Looks for settings of the compiler that nothing would read."""
    if speed.compile:
        return
    usual = {"compile_modules": [], "compile_dynamic": None, "compile_fullgraph": False}
    for name, value in usual.items():
        if speed.get(name, value) != value:
            raise LabError(
                f"speed.{name} has no effect without speed.compile. Set speed.compile=default"
            )
