"""What makes a step faster or smaller, each behind one setting of the sections `batch` and `speed`.

Layers in 8-bit floats (`speed.float8`, torchao) were never run on a GPU. Layers such as
torch.nn.LazyLinear take their sizes from the first batch.
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import lightning.pytorch as L
import torch
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.nn.parameter import is_lazy
from torch.utils.checkpoint import checkpoint

from ...errors import LabError, nearest, require_package
from ...machine.text_formats import and_more
from .compile import compile_modules, require_compile_settings
from .settings import n_processes_of

PLAN = """\
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def parallelize(self, mesh):
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        for layer in self.layers:
            parallelize_module(layer, mesh, plan)
"""


def accelerate(task: L.LightningModule, config: DictConfig) -> L.LightningModule:
    """Applies the section `speed` to the networks of a task, in place.

    The Trainer does the rest of the section: `strategy_for` chooses FSDP2.

    Args:
        config: a configuration without `auto`.
    """
    require_sizes(task, config, n_processes_of(config))
    speed = config.speed
    networks = networks_of(task)
    on_gpu = config.trainer.accelerator in ("gpu", "cuda")
    is_distributed = n_processes_of(config) > 1
    if speed.sync_batchnorm and not on_gpu:
        print("speed.sync_batchnorm is off: torch has it for CUDA only")
    elif speed.sync_batchnorm and is_distributed:
        nn.SyncBatchNorm.convert_sync_batchnorm(task)
    if speed.get("float8"):
        use_float8(networks, on_gpu)
    require_compile_settings(speed)
    repeated = matching_modules(task, "compile_modules", speed.get("compile_modules", []))
    # Before checkpointing, which wraps them.
    if repeated:
        compile_modules(repeated, speed, on_gpu)
    for module in matching_modules(task, "checkpoint_activations", speed.checkpoint_activations):
        recompute_in_backward(module)
    if speed.channels_last:
        for network in networks:
            use_channels_last(network)
    tensor_parallel = speed.get("tensor_parallel", 1)
    if tensor_parallel > 1:
        require_plan(task, tensor_parallel)
    if (speed.fsdp or tensor_parallel > 1) and is_distributed:
        # Lightning's hook for it; it calls it when the processes are connected.
        task.configure_model = partial(shard, task, task.configure_model)
    if speed.compile and not repeated:
        compile_modules(networks, speed, on_gpu)
    return task


def networks_of(task: L.LightningModule) -> list[nn.Module]:
    """The modules of a task that have parameters."""
    return [child for child in task.children() if list(child.parameters())]


def use_channels_last(network: nn.Module) -> None:
    """Images and filters of a network have their channels last in memory."""
    every_tensor: Any = {"memory_format": torch.channels_last}
    network.to(**every_tensor)
    network.register_forward_pre_hook(lambda _, inputs: tuple(as_channels_last(x) for x in inputs))


def as_channels_last(x: Any) -> Any:
    """Images (B, C, H, W) with their channels last in memory; anything else as it is."""
    if isinstance(x, Tensor) and x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


def matching_modules(task: L.LightningModule, setting: str, patterns: list[str]) -> list[nn.Module]:
    """The modules whose names match one of the patterns of a setting of `speed`, without those
    inside another one that does.
    """
    names = [name for name, _ in task.named_modules() if name]
    matching: set[str] = set()
    for pattern in patterns:
        matches = fnmatch.filter(names, pattern)
        if not matches:
            lists = [
                f"{name}.*"
                for name, child in task.named_modules()
                if isinstance(child, nn.ModuleList)
            ]
            listed = f"Its lists of modules: {', '.join(lists[:3])}. " if lists else ""
            raise LabError(
                f"speed.{setting}: the task has no module {pattern!r}"
                f"{nearest(pattern, names)}. {listed}Names may have *, as in model.blocks.*"
            )
        matching.update(matches)
    outermost = [
        name for name in matching if not any(name.startswith(f"{other}.") for other in matching)
    ]
    return [task.get_submodule(name) for name in outermost]


def recompute_in_backward(module: nn.Module) -> None:
    """The module keeps no activations: backward runs its forward again (checkpointing,
    non-reentrant).

    The second forward leaves the statistics of BatchNorm as they are, so that the training is the
    same, bit for bit.
    """
    norms: list[Any] = [
        part for part in module.modules() if getattr(part, "num_batches_tracked", None) is not None
    ]

    @contextmanager
    def statistics_kept() -> Iterator[None]:
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
            norm.num_batches_tracked -= 1
        try:
            yield
        # torch leaves by an exception as soon as it has all it needs.
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    def contexts() -> tuple[AbstractContextManager, AbstractContextManager]:
        """Around the first forward, and around the second."""
        return nullcontext(), statistics_kept()

    module.forward = partial(checkpoint, module.forward, use_reentrant=False, context_fn=contexts)


def require_plan(task: L.LightningModule, tensor_parallel: int) -> None:
    """Looks for the method that says how the layers of a network are divided."""
    networks = networks_of(task)
    if any(hasattr(network, "parallelize") for network in networks):
        return
    names = " or ".join(type(network).__name__ for network in networks)
    raise LabError(
        f"speed.tensor_parallel={tensor_parallel}: {names} has no parallelize(mesh), which says how its "
        f"layers are divided. Write it there, with the names of your layers:\n{PLAN}"
        "Of two matrices in a row the first is Colwise, the second Rowwise. An example: "
        "examples/language/model.py, and lab docs parallelism"
    )


def divide(network: nn.Module, mesh: DeviceMesh) -> None:
    """Tensor parallelism: divides the layers by the plan of a network, and copies the others.

    Args:
        mesh: the processes that share the network.
    """
    parallelize: Any = getattr(network, "parallelize", None)
    if parallelize:
        parallelize(mesh)
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        # Optimizers and clipping want all parameters on one mesh.
        if own and not any(isinstance(tensor, DTensor) for tensor in own):
            distribute_module(module, mesh, None, enter_mesh, leave_mesh)


def enter_mesh(_: nn.Module, inputs: tuple[Any, ...], mesh: DeviceMesh) -> Any:
    """The inputs of a module whose parameters are copies: each process has the same ones."""
    return tuple(
        DTensor.from_local(x, mesh, [Replicate()], run_check=False)
        if isinstance(x, Tensor) and not isinstance(x, DTensor)
        else x
        for x in inputs
    )


def leave_mesh(_: nn.Module, output: Any, mesh: DeviceMesh) -> Any:
    return output.to_local() if isinstance(output, DTensor) else output


def shard(task: L.LightningModule, configure_model: Callable[[], None]) -> None:
    """FSDP2: the parameters of each block are spread over the processes, or over those that hold
    the same part of each layer.

    Args:
        configure_model: the hook of the task itself, which may make its networks.
    """
    configure_model()
    outside = [name for name, _ in task.named_parameters(recurse=False)]
    if outside:
        raise LabError(
            f"speed.fsdp: the task itself has the parameters {outside}. Move them into a module."
        )
    assert task.device_mesh is not None  # ModelParallelStrategy has made it
    mesh, shared = task.device_mesh["data_parallel"], task.device_mesh["tensor_parallel"]
    for network in networks_of(task):
        # Lightning calls this again for the test.
        if isinstance(network, FSDPModule):
            continue
        if shared.size() > 1:
            divide(network, shared)
        for block in blocks_of(network):
            fully_shard(block, mesh=mesh)
        fully_shard(network, mesh=mesh)


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """The children of a network, and the members of those that are a ModuleList; only what has
    parameters."""
    parts: list[nn.Module] = []
    for child in network.children():
        if isinstance(child, nn.ModuleList):
            parts.extend(child)
        else:
            parts.append(child)
    return [part for part in parts if list(part.parameters())]


CAPABILITY = (8, 9)  # of the GPUs that multiply such numbers: L4, L40, H100 and newer
MULTIPLE = 16  # of the sizes that they multiply


def use_float8(networks: list[nn.Module], on_gpu: bool) -> None:
    """Converts the linear layers of networks in place. Weights, their names and optimizers stay."""
    require_float8_gpu(on_gpu)
    require_package("torchao", "speed.float8=true")
    float8: Any = importlib.import_module("torchao.float8")
    for network in networks:
        float8.convert_to_float8_training(network, module_filter_fn=is_convertible)
    parts = [part for network in networks for part in network.modules()]
    n_converted = sum(type(part).__name__ == "Float8Linear" for part in parts)
    if not n_converted:
        raise LabError(
            f"speed.float8=true: no linear layer has sizes that are multiples of {MULTIPLE}. "
            "Leave it out"
        )
    print(f"speed.float8: {n_converted} linear layers", flush=True)


def require_float8_gpu(on_gpu: bool) -> None:
    """Makes sure that the GPU multiplies 8-bit floats."""
    needed = (
        "speed.float8=true needs an NVIDIA GPU of compute capability 8.9 (L4, L40, H100) or newer"
    )
    if not on_gpu:
        raise LabError(f"{needed}; this training runs on the CPU. Leave it out")
    capability = torch.cuda.get_device_capability()
    if capability < CAPABILITY:
        found = f"{torch.cuda.get_device_name()} has {capability[0]}.{capability[1]}"
        raise LabError(f"{needed}; {found}. Leave it out")


def is_convertible(module: nn.Module, _: str) -> bool:
    """Whether a layer has sizes that can be multiplied as 8-bit floats."""
    if not isinstance(module, nn.Linear):
        return False
    return module.in_features % MULTIPLE == 0 and module.out_features % MULTIPLE == 0


def unsized_tensors(task: nn.Module) -> list[str]:
    """The names of parameters and buffers whose shape the first batch decides."""
    tensors = [*task.named_parameters(), *task.named_buffers()]
    return [name for name, tensor in tensors if is_lazy(tensor)]


def sized_parameters(task: nn.Module) -> list[nn.Parameter]:
    """The parameters whose shape is known."""
    return [parameter for parameter in task.parameters() if not is_lazy(parameter)]


def n_parameters_of(task: nn.Module) -> int:
    """How many numbers are learned or frozen, in the parameters whose shape is known."""
    return sum(parameter.numel() for parameter in sized_parameters(task))


def require_sizes(task: L.LightningModule, config: DictConfig, n_processes: int) -> None:
    """Makes sure that all shapes are known where they must be before the first batch.

    Args:
        n_processes: that will train together.
    """
    names = unsized_tensors(task)
    if not names:
        return
    makes_model_later = type(task).configure_model is not L.LightningModule.configure_model
    if config.speed.channels_last:
        reason = "speed.channels_last"
    elif n_processes > 1 and not makes_model_later:
        reason = f"training in {n_processes} processes"
    else:
        return
    raise LabError(
        f"{reason} needs every size before the first batch, but that decides the size of "
        f"{and_more(names, 1)}. Write sizes in place of torch.nn.Lazy..., or show the network "
        "one sample at the end of the task's __init__:\n"
        "with torch.no_grad(): self.model(torch.zeros(1, 1, 8, 8))  # the shape of yours"
    )
