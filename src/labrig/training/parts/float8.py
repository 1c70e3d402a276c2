"""`speed.float8`: linear layers multiply in 8-bit floats, by torchao. Never run on a GPU."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from ...errors import LabError, require_package

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
