"""The loops of plain.py, compiled by numba.

`cache=True` keeps the machine code, so only the first run ever compiles: next to this file, or in
$NUMBA_CACHE_DIR. A `lab` project sets that to a directory in paths.caches.
"""

import math

import numpy as np
from numba import njit, prange, vectorize


@njit(cache=True, parallel=True, fastmath=True)
def product(a, b):
    result = np.zeros((a.shape[0], b.shape[1]))
    for i in prange(a.shape[0]):  # rows in parallel
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):  # innermost: neighbours in memory
                result[i, j] += a[i, k] * b[k, j]
    return result


@njit(cache=True)
def mixture(point, mean, variance, weight):
    """The loops of plain.py: no array of the size (N, K) is ever made."""
    n_points, n_features = point.shape
    n_components = len(weight)
    constant = np.log(weight) - 0.5 * np.log(2 * np.pi * variance).sum(1)
    total = np.zeros(n_components)
    sums = np.zeros_like(mean)
    squares = np.zeros_like(mean)
    joint = np.empty(n_components)
    log_likelihood = 0.0
    for n in range(n_points):
        for k in range(n_components):
            joint[k] = constant[k]
            for f in range(n_features):
                joint[k] -= 0.5 * (point[n, f] - mean[k, f]) ** 2 / variance[k, f]
        largest = joint.max()
        log_total = largest + math.log(np.exp(joint - largest).sum())
        log_likelihood += log_total
        for k in range(n_components):
            share = math.exp(joint[k] - log_total)
            total[k] += share
            for f in range(n_features):
                sums[k, f] += share * point[n, f]
                squares[k, f] += share * point[n, f] ** 2
    new_mean = sums / total.reshape(-1, 1)
    new_variance = squares / total.reshape(-1, 1) - new_mean**2
    return new_mean, new_variance, total / n_points, log_likelihood / n_points


@vectorize(["float64(float64, float64)"], cache=True)
def elementwise(x, y):
    """A NumPy ufunc made from the formula of one number: it broadcasts, and makes no temporaries."""
    return x / (1 + math.exp(-x)) if y > 0 else 0.1 * x
