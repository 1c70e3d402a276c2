"""CuPy: NumPy's functions on an NVIDIA GPU, and a kernel from one line of C++."""

import cupy
import with_numpy

product = with_numpy.product  # its operators work on CuPy's arrays as they are


def inverse(a, upstream):
    result = cupy.linalg.inv(a)
    return result, -result.T @ upstream @ result.T


# CuPy compiles this once and caches it in $CUPY_CACHE_DIR. One pass over memory, no temporaries.
elementwise = cupy.ElementwiseKernel(
    in_params="T x, T y",
    out_params="T z",
    operation="z = y > 0 ? x / (1 + exp(-x)) : 0.1 * x",
    name="soft_threshold",
)
