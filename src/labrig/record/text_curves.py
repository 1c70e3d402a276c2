"""Curves drawn with characters, for a terminal without pictures."""

from __future__ import annotations

import string
from itertools import pairwise

from .curves import Curve

HEIGHT = 16  # lines
LABEL_WIDTH = 10  # of the numbers on the left
MARKS = string.ascii_uppercase + string.ascii_lowercase


def text_curves(curves: list[Curve], x_label: str, width: int = 80) -> list[str]:
    """The lines of a picture; the points of the first curve are A, of the second B.

    Args:
        curves: each with a point at least.
        x_label: what the horizontal axis shows.
        width: columns of the terminal.
    """
    n_columns = max(10, width - LABEL_WIDTH - 3)
    x_low, x_high = bounds([x for curve in curves for x, _ in curve])
    y_low, y_high = bounds([y for curve in curves for _, y in curve])
    grid = [[" "] * n_columns for _ in range(HEIGHT)]

    def place_of(x: float, y: float) -> tuple[int, int]:
        column = round((x - x_low) / (x_high - x_low) * (n_columns - 1))
        return round((y_high - y) / (y_high - y_low) * (HEIGHT - 1)), column

    for mark, curve in zip(MARKS, curves, strict=False):
        places = [place_of(x, y) for x, y in curve]
        for (line, column), (next_line, next_column) in pairwise(places):
            for n in range(column + 1, next_column):
                share = (n - column) / (next_column - column)
                grid[round(line + share * (next_line - line))][n] = "."
        for line, column in places:
            grid[line][column] = mark
    lines = []
    for n, line in enumerate(grid):
        value = y_high - n / (HEIGHT - 1) * (y_high - y_low)
        label = f"{value:.4g}" if n % 5 == 0 else ""
        lines.append(f"{label:>{LABEL_WIDTH}} |{''.join(line)}".rstrip())
    left = f"{x_low:.4g}"
    right = f"{x_high:.4g}"
    ends = f"{left}{x_label:^{n_columns - len(left) - len(right)}}{right}"
    lines.append(f"{'':>{LABEL_WIDTH}} +{'-' * n_columns}")
    lines.append(f"{'':>{LABEL_WIDTH}}  {ends}")
    return lines


def bounds(values: list[float]) -> tuple[float, float]:
    """The smallest and the largest value, which differ also where all values are one."""
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
