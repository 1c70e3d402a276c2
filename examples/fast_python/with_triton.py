"""A kernel in Triton, which comes with the CUDA builds of PyTorch.

$TRITON_INTERPRET=1 runs it on the CPU, slowly: for tests and for print().
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # numbers that one program of the grid works on


@triton.jit
def soft_threshold(x_pointer, y_pointer, z_pointer, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n  # the last block may reach over the end
    x = tl.load(x_pointer + place, mask=inside)
    y = tl.load(y_pointer + place, mask=inside)
    z = tl.where(y > 0, x / (1 + tl.exp(-x)), 0.1 * x)
    tl.store(z_pointer + place, z, mask=inside)


def elementwise(x: Tensor, y: Tensor) -> Tensor:
    z = torch.empty_like(x)
    n = x.numel()
    soft_threshold[(triton.cdiv(n, BLOCK),)](x, y, z, n, BLOCK=BLOCK)
    return z
