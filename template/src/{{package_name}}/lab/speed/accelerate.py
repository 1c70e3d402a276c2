# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What makes a step faster or smaller: each behind one setting (`batch` and `speed` in lab.yaml); and, always, `lean`:
Lightning's step without what nobody uses, about 0.3 ms of CPU less a step.

Per step Lightning 2.6 enters some 60 profiler contexts, calls hooks that nobody implements, sets an attribute of the
module 44 times through nn.Module.__setattr__, compares its own stage 13 times as lower-case text, asks 7 times whether
a method is overridden, and divides the loss by 1. Hooks that somebody implements are called as before, in the same order.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.loops import training_epoch_loop
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.connectors.data_connector import _DataHookSelector
from lightning.pytorch.trainer.states import RunningStage
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.checkpoint import checkpoint

from ..config.compose import accumulation
from ..errors import LabError, nearest
from ..machine.ranks import discover

COMPILE = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")  # modes of torch.compile
EMPTY = (  # hooks of the module that do nothing unless the user writes them
    "on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_train_batch_start",
    "on_train_batch_end",
)  # fmt: skip
callback_hooks = call._call_callback_hooks
hook_owner = _DataHookSelector.get_instance
same_text = RunningStage.__eq__
result_of = ClosureResult.from_training_step_output.__func__


def scale(config: DictConfig) -> dict[str, Any]:
    """Settings that follow from the number of processes, written into `config`; to be called before parts are built.

    Returns:
        What was chosen, for the record.

    Raises:
        LabError: two settings contradict each other.
    """
    trainer, batch, deterministic = config.trainer, config.batch, config.record.deterministic
    n_processes, n_samples = processes(config), config.data.get("batch_size")
    if batch["global"] is not None:
        trainer.accumulate_grad_batches = accumulation(config, n_processes)
    for section, name in (("optimizer", "lr"), ("schedule", "max_lr")) if batch.scale_lr else ():
        if name in config[section]:
            config[section][name] *= n_processes
    if deterministic and config.speed.cudnn_benchmark is True:
        raise LabError("speed.cudnn_benchmark takes the fastest kernel, record.deterministic the same: choose one")
    torch.backends.cudnn.benchmark = not deterministic and config.speed.cudnn_benchmark in (True, "auto")
    for compiler in ("TORCHINDUCTOR", "TRITON") if config.paths.scratch else ():
        os.environ[f"{compiler}_CACHE_DIR"] = f"{config.paths.scratch}/compiled/{compiler.lower()}"
    n_batches = trainer.accumulate_grad_batches
    return {"accumulate_grad_batches": n_batches, "samples_per_step": n_samples and n_samples * n_processes * n_batches}


def processes(config: DictConfig) -> int:
    return int(config.trainer.devices) * discover().n_nodes


def accelerate(task: L.LightningModule, config: DictConfig) -> L.LightningModule:
    """Applies the section `speed` to the networks of a task, in place."""
    speed, networks = config.speed, [child for child in task.children() if list(child.parameters())]
    on_gpu, several = config.trainer.accelerator in ("gpu", "cuda"), processes(config) > 1
    if speed.sync_batchnorm and not on_gpu:
        print("speed.sync_batchnorm is off: torch has it for CUDA only")
    elif speed.sync_batchnorm and several:
        nn.SyncBatchNorm.convert_sync_batchnorm(task)
    for module in matching(task, speed.checkpoint_activations):
        recompute(module)
    for network in networks if speed.channels_last else ():
        network.to(memory_format=torch.channels_last)
        network.register_forward_pre_hook(lambda _, inputs: tuple(map(as_channels_last, inputs)))
    if speed.fsdp and several:
        task.lab_strategy = ModelParallelStrategy(processes(config), 1, save_distributed_checkpoint=False)
        task.configure_model = partial(shard, task, networks)
    if speed.compile:
        compile_all(networks, speed.compile, on_gpu)
    return task


def as_channels_last(x: Any) -> Any:
    """Images with their channels last in memory; anything else as it is."""
    return x.contiguous(memory_format=torch.channels_last) if isinstance(x, Tensor) and x.ndim == 4 else x


def compile_all(networks: list[nn.Module], mode: str, on_gpu: bool) -> None:
    """torch.compile, in place, so that checkpoints keep their names. Without a compiler the training goes on, slower."""
    if mode not in COMPILE:
        raise LabError(f"speed.compile is {mode!r}{nearest(str(mode), COMPILE)}. Modes: {', '.join(COMPILE)}")
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler) or (on_gpu and importlib.util.find_spec("triton") is None):
        missing = "the package triton" if shutil.which(compiler) else f"the C++ compiler {compiler} (module load gcc?)"
        print(f"speed.compile is off: it needs {missing}", flush=True)
        return
    torch._dynamo.config.suppress_errors = True  # what cannot be compiled runs as it is, with a warning
    for network in networks:
        network.forward = torch.compile(network.forward, mode=mode)


def matching(task: L.LightningModule, patterns: list[str]) -> list[nn.Module]:
    """The modules whose names match one of the patterns, without those inside another one that does."""
    names = [name for name, _ in task.named_modules() if name]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise LabError(f"speed.checkpoint_activations: the task has no module {pattern!r}{nearest(pattern, names)}")
    chosen = {name for pattern in patterns for name in fnmatch.filter(names, pattern)}
    return [task.get_submodule(name) for name in chosen if not any(name.startswith(f"{other}.") for other in chosen)]


def recompute(module: nn.Module) -> None:
    """The module keeps no activations: backward runs its forward again (checkpointing, non-reentrant).

    The second forward leaves the statistics of BatchNorm alone, so that the training is the same, bit for bit.
    """
    norms = [part for part in module.modules() if getattr(part, "num_batches_tracked", None) is not None]

    @contextmanager
    def counted_before() -> Iterator[None]:
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
            norm.num_batches_tracked -= 1
        try:
            yield
        finally:  # torch leaves by an exception as soon as it has all it needs
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    contexts = {"context_fn": lambda: (nullcontext(), counted_before())}
    module.forward = partial(checkpoint, module.forward, use_reentrant=False, **contexts)


def shard(task: L.LightningModule, networks: list[nn.Module]) -> None:
    """FSDP2: the parameters of each block (a member of a ModuleList, or a direct child) are spread over the processes.

    Raises:
        LabError: parameters that belong to no network, which would go their own way in each process.
    """
    own = [name for name, _ in task.named_parameters(recurse=False)]
    if own:
        raise LabError(f"speed.fsdp wants every parameter inside a module, but the task itself has {own}")
    for network in networks:
        if isinstance(network, FSDPModule):  # Lightning calls this again for the test
            continue
        parts = [m for child in network.children() for m in (child if isinstance(child, nn.ModuleList) else [child])]
        for block in [part for part in parts if list(part.parameters())] + [network]:
            fully_shard(block, mesh=task.device_mesh["data_parallel"])


# ---- Lightning's step


class NoProfiler(PassThroughProfiler):
    nothing = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager:
        return self.nothing


def call_callback_hooks(trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> None:
    hooks = implemented(hook_name, tuple(trainer.callbacks))
    if kwargs or trainer.lightning_module is None:  # only some of the callbacks, or before there is a module
        callback_hooks(trainer, hook_name, *args, **kwargs)
    elif hooks:
        module = trainer.lightning_module
        _named(module, trainer.profiler, hook_name, lambda: [hook(trainer, module, *args) for hook in hooks], (), {})


@lru_cache(maxsize=256)
def implemented(hook_name: str, callbacks: tuple[L.Callback, ...]) -> list[Callable[..., Any]]:
    base = getattr(L.Callback, hook_name, None)
    hooks = [getattr(callback, hook_name) for callback in callbacks]
    return [hook for hook in hooks if getattr(hook, "__func__", None) is not base]


def call_module_hook(
    trainer: L.Trainer, hook_name: str, *args: Any, pl_module: L.LightningModule | None = None, **kwargs: Any
) -> Any:
    module = pl_module or trainer.lightning_module
    hook = getattr(module, hook_name)
    if getattr(hook, "__func__", None) is getattr(L.LightningModule, hook_name):
        if hook_name in EMPTY or (hook_name == "configure_gradient_clipping" and not kwargs["gradient_clip_val"]):
            return None
        if hook_name == "transfer_batch_to_device" and args[1].type == "cpu":
            return args[0]
    return _named(module, trainer.profiler, hook_name, hook, args, kwargs)


def call_strategy_hook(trainer: L.Trainer, hook_name: str, *args: Any, **kwargs: Any) -> Any:
    hook = getattr(trainer.strategy, hook_name)
    return _named(trainer.lightning_module, trainer.profiler, hook_name, hook, args, kwargs)


def _named(module: L.LightningModule, profiler: Any, name: str, hook: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Calls a hook while the module knows its name, which `self.log` asks for."""
    attributes = module.__dict__
    before, attributes["_current_fx_name"] = attributes["_current_fx_name"], name
    with profiler.profile(name):
        output = hook(*args, **kwargs)
    attributes["_current_fx_name"] = before
    return output


def remembered_owner(selector: _DataHookSelector, hook_name: str) -> L.LightningModule | L.LightningDataModule:
    known = selector.__dict__.setdefault("known", {})
    if hook_name not in known:
        known[hook_name] = hook_owner(selector, hook_name)
    return known[hook_name]


def same_stage(stage: RunningStage, other: object) -> bool:
    return stage is other if isinstance(other, RunningStage) else same_text(stage, other)


def undivided(cls: type[ClosureResult], output: Any, normalize: int = 1) -> ClosureResult:
    if normalize == 1 and isinstance(output, dict) and isinstance(output.get("loss"), Tensor):
        return cls(output["loss"], extra={name: value for name, value in output.items() if name != "loss"})
    return result_of(cls, output, normalize)


def lean(trainer: L.Trainer) -> L.Trainer:
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
    training_epoch_loop.is_param_in_hook_signature = lru_cache(maxsize=64)(is_param_in_hook_signature)
    return trainer
