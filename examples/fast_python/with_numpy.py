"""The same in NumPy: whole arrays at once, and BLAS for the products."""

import numpy as np

Array = np.ndarray


def product(a: Array, b: Array) -> Array:
    return a @ b


def mixture(point, mean, variance, weight) -> tuple[Array, Array, Array, float]:
    """One array operation per line; memory holds an array (N, K, F)."""
    square_NK = ((point[:, None] - mean) ** 2 / variance).sum(2)
    log_density_NK = -0.5 * (square_NK + np.log(2 * np.pi * variance).sum(1))
    joint_NK = np.log(weight) + log_density_NK
    log_total_N = np.logaddexp.reduce(joint_NK, axis=1)
    share_NK = np.exp(joint_NK - log_total_N[:, None])
    total_K = share_NK.sum(0)
    new_mean = share_NK.T @ point / total_K[:, None]
    new_variance = share_NK.T @ point**2 / total_K[:, None] - new_mean**2
    return new_mean, new_variance, total_K / len(point), log_total_N.mean()


def inverse(a: Array, upstream: Array) -> tuple[Array, Array]:
    result = np.linalg.inv(a)
    return result, -result.T @ upstream @ result.T


def elementwise(x: Array, y: Array) -> Array:
    return np.where(y > 0, x / (1 + np.exp(-x)), 0.1 * x)
