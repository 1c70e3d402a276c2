"""Which BLAS the libraries use, with how many threads, and how fast it multiplies.

A NumPy without an optimised BLAS, or one with a single thread, makes everything slow.
"""

import time

import numpy as np

N = 800  # rows of a matrix


def describe() -> list[str]:
    """A line for each library that is loaded: its BLAS or OpenMP, version, threads."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return ["BLAS: not looked at, threadpoolctl is not installed"]
    lines = []
    for library in threadpool_info():
        name = f"{library['internal_api']} {library['version'] or ''}".strip()
        kernel = library.get("architecture", "")
        lines.append(f"{library['user_api']}: {name} {kernel}, {library['num_threads']} threads")
    return lines


def gflops(repeats: int = 5) -> float:
    """10^9 operations a second of a product in float64."""
    a = np.random.default_rng(0).random((N, N))
    seconds = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - began_s)
    return 2 * N**3 / min(seconds) / 1e9
