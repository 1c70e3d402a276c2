"""EM once, for every array library: NumPy, PyTorch on CPU or GPU, CuPy.

The array API standard (data-apis.org) names the functions that they share;
`array_namespace(x)` is the library that x comes from.
"""

import math

from array_api_compat import array_namespace


def mixture(point, mean, variance, weight):
    xp = array_namespace(point, mean, variance, weight)
    square_NK = xp.sum((point[:, None, :] - mean) ** 2 / variance, axis=2)
    log_density_NK = -0.5 * (square_NK + xp.sum(xp.log(2 * math.pi * variance), axis=1))
    joint_NK = xp.log(weight) + log_density_NK
    largest_N1 = xp.max(joint_NK, axis=1, keepdims=True)
    log_total_N1 = largest_N1 + xp.log(xp.sum(xp.exp(joint_NK - largest_N1), axis=1, keepdims=True))
    share_NK = xp.exp(joint_NK - log_total_N1)
    total_K = xp.sum(share_NK, axis=0)
    new_mean = share_NK.T @ point / total_K[:, None]
    new_variance = share_NK.T @ point**2 / total_K[:, None] - new_mean**2
    return new_mean, new_variance, total_K / point.shape[0], xp.mean(log_total_N1)
