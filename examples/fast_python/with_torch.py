"""PyTorch, and how another library becomes a part of its automatic differentiation.

DLPack hands an array from one library to another without a copy, on the CPU and on the GPU:
`np.from_dlpack(tensor)`, `cupy.from_dlpack(tensor)`, `torch.from_dlpack(array)`.
"""

import numpy as np
import torch
from torch import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def elementwise(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(y > 0, x * torch.sigmoid(x), 0.1 * x)


class Inverse(torch.autograd.Function):
    """The inverse by NumPy, or by CuPy for tensors on a GPU, with its derivative by hand.

    Check such a derivative once: torch.autograd.gradcheck(Inverse.apply, matrix) in float64.
    """

    @staticmethod
    def forward(ctx, a: Tensor) -> Tensor:
        result = torch.from_dlpack(invert(a.detach()))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, upstream: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return -result.mT @ upstream @ result.mT


def invert(a: Tensor):
    """The inverse as an array of the library that works where the tensor lies."""
    if a.is_cuda:
        import cupy

        return cupy.linalg.inv(cupy.from_dlpack(a))
    return np.linalg.inv(np.from_dlpack(a))


def inverse(a: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    a = a.detach().requires_grad_()
    result = Inverse.apply(a)
    result.backward(upstream)
    return result.detach(), a.grad
