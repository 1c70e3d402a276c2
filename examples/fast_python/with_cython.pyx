# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The product in Cython: Python with the types of C. It is compiled once, before the program runs.

Use it where a C or C++ library must be called; for loops alone numba needs no build step.
"""

import numpy as np


def product(double[:, ::1] a, double[:, ::1] b):
    cdef Py_ssize_t i, j, k
    result = np.zeros((a.shape[0], b.shape[1]))
    cdef double[:, ::1] c = result
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return result
