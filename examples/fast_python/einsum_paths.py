"""The order in which a product of several tensors is computed.

`np.einsum` takes the operands all at once unless one asks for an order. The plain
version here is that; `opt_einsum.contract` looks for one by itself, for NumPy, PyTorch and CuPy.
torch.einsum uses opt_einsum when it is installed.
"""

import numpy as np

CHAIN = "ij,jk,kl,lm->im"


def in_one_loop(*operands):
    """Every index in one loop: n^5 steps for matrices of n rows."""
    return np.einsum(CHAIN, *operands)


def along_a_path(*operands):
    """Two at a time: 3 n^3 steps. np.einsum_path prints the order."""
    return np.einsum(CHAIN, *operands, optimize="optimal")


def with_opt_einsum(*operands):
    from opt_einsum import contract

    return contract(CHAIN, *operands)
