# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Data as a page holds it: compressed, as text in which no character means anything to HTML."""

from __future__ import annotations

import base64
import sys
import zlib
from array import array

from .curves import Curve

LARGEST_STEP = 2**32 - 1
LEVEL = 6  # of compression; 9 takes thrice the time for a hundredth of the size


def pack(content: bytes) -> str:
    """zlib, then base64: letters, digits, +, / and = only."""
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")


def pack_curves(curves: list[Curve]) -> str:
    """Curves one after the other: the distances of all steps, then all values.

    A distance has four bytes. A value is a 32-bit float without its last eight bits, so it has
    four to five digits. Bytes of one rank lie together, which halves the compressed size.
    """
    distances = array("I")
    values = array("f")
    for curve in curves:
        before = 0.0
        for step in curve.steps:
            distances.append(min(LARGEST_STEP, max(0, int(step - before))))
            before = step
        values.extend(curve.values.tolist())
    bits = array("I", values.tobytes())
    rounded = array("I", [min(bit + 0x80, 0xFFFFFFFF) >> 8 for bit in bits])
    return pack(planes(distances, 4) + planes(rounded, 3))


def planes(numbers: array, n_bytes: int) -> bytes:
    """The lowest bytes of all numbers, then the next higher ones: `n_bytes` of each number."""
    if sys.byteorder == "big":
        numbers.byteswap()
    content = numbers.tobytes()
    return b"".join(content[place::4] for place in range(n_bytes))
