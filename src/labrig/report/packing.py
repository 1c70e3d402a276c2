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
    distances_of_steps: dict[bytes, array] = {}  # most runs log at the same steps
    for curve in curves:
        steps = curve.steps.tobytes()
        if steps not in distances_of_steps:
            distances_of_steps[steps] = distances_of(curve.steps)
        distances.extend(distances_of_steps[steps])
        values.extend(array("f", curve.values))
    return pack(b"".join([*planes(distances), *planes(values)[1:]]))


def distances_of(steps: array) -> array:
    """The first step, then the distance of each to the one before."""
    pairs = zip(steps, [0.0, *steps], strict=False)
    return array("I", [min(LARGEST_STEP, max(0, int(step - before))) for step, before in pairs])


def planes(numbers: array) -> list[bytes]:
    """The lowest bytes of all numbers of four bytes, then the next higher ones, and so on."""
    if sys.byteorder == "big":
        numbers.byteswap()
    content = numbers.tobytes()
    return [content[place::4] for place in range(4)]
