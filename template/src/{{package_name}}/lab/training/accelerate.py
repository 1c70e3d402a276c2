# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""What makes a step faster or smaller, each behind one setting of the sections `batch` and `speed`."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.checkpoint import checkpoint

from ..errors import LabError, nearest
from .settings import n_processes_of

COMPILE = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)  # modes of torch.compile


def accelerate(task: L.LightningModule, config: DictConfig) -> L.LightningModule:
    """Applies the section `speed` to the networks of a task, in place."""
    speed, networks = config.speed, [child for child in task.children() if list(child.parameters())]
    on_gpu, several = config.trainer.accelerator in ("gpu", "cuda"), n_processes_of(config) > 1
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
        task.lab_strategy = ModelParallelStrategy(
            n_processes_of(config), 1, save_distributed_checkpoint=False
        )
        task.configure_model = partial(shard, task, networks)
    if speed.compile:
        compile_all(networks, speed.compile, on_gpu)
    return task


def as_channels_last(x: Any) -> Any:
    """Images with their channels last in memory; anything else as it is."""
    return (
        x.contiguous(memory_format=torch.channels_last)
        if isinstance(x, Tensor) and x.ndim == 4
        else x
    )


def compile_all(networks: list[nn.Module], mode: str, on_gpu: bool) -> None:
    """torch.compile, in place, so that checkpoints keep their names. Without a compiler the training goes on, slower."""
    if mode not in COMPILE:
        raise LabError(
            f"speed.compile is {mode!r}{nearest(str(mode), COMPILE)}. Modes: {', '.join(COMPILE)}"
        )
    compiler = os.environ.get("CXX", "g++")
    if not shutil.which(compiler) or (on_gpu and importlib.util.find_spec("triton") is None):
        missing = (
            "the package triton"
            if shutil.which(compiler)
            else f"the C++ compiler {compiler} (module load gcc?)"
        )
        print(f"speed.compile is off: it needs {missing}", flush=True)
        return
    torch._dynamo.config.suppress_errors = (
        True  # what cannot be compiled runs as it is, with a warning
    )
    for network in networks:
        network.forward = torch.compile(network.forward, mode=mode)


def matching(task: L.LightningModule, patterns: list[str]) -> list[nn.Module]:
    """The modules whose names match one of the patterns, without those inside another one that does."""
    names = [name for name, _ in task.named_modules() if name]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise LabError(
                f"speed.checkpoint_activations: the task has no module {pattern!r}{nearest(pattern, names)}"
            )
    chosen = {name for pattern in patterns for name in fnmatch.filter(names, pattern)}
    return [
        task.get_submodule(name)
        for name in chosen
        if not any(name.startswith(f"{other}.") for other in chosen)
    ]


def recompute(module: nn.Module) -> None:
    """The module keeps no activations: backward runs its forward again (checkpointing, non-reentrant).

    The second forward leaves the statistics of BatchNorm alone, so that the training is the same, bit for bit.
    """
    norms = [
        part for part in module.modules() if getattr(part, "num_batches_tracked", None) is not None
    ]

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
        raise LabError(
            f"speed.fsdp wants every parameter inside a module, but the task itself has {own}"
        )
    for network in networks:
        if isinstance(network, FSDPModule):  # Lightning calls this again for the test
            continue
        parts = [
            m
            for child in network.children()
            for m in (child if isinstance(child, nn.ModuleList) else [child])
        ]
        for block in [part for part in parts if list(part.parameters())] + [network]:
            fully_shard(block, mesh=task.device_mesh["data_parallel"])
