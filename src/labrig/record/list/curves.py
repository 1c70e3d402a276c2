"""The curves of a run: a metric over steps, epochs or hours."""

from __future__ import annotations

import math
import string
from array import array
from itertools import pairwise
from pathlib import Path

from ...errors import LabError, require_package
from ...machine.own_output import PICTURE_FACTS
from ...machine.text_formats import HOUR_S
from ..files.metrics_file import MetricColumns, extreme_places

AXES = ("step", "epoch", "hours")
MOST_DRAWN = 5000  # points; a picture has a tenth of the columns
Curve = list[tuple[float, float]]


def read_curve(run_dir: Path, metric: str, axis: str = "step", most: float = MOST_DRAWN) -> Curve:
    """The finite values of a metric, in order; of more than `most` only those that a picture shows.

    Args:
        axis: step (optimizer steps), epoch (from 0), or hours (of training, without the time
            between two attempts).
    """
    metrics = MetricColumns(run_dir, {metric})
    places = hours_of(metrics) if axis == "hours" else metrics.columns[axis]
    rows, values = array("I"), array("d")
    for row, value in metrics.points(metric):
        rows.append(row)
        values.append(value)
    shown = extreme_places(values, MOST_DRAWN) if len(values) > most else range(len(values))
    return [(places[rows[n]], values[n]) for n in shown]


def hours_of(metrics: MetricColumns) -> array:
    """The hours of each row since the first of its attempt, after those of earlier attempts."""
    attempts, times_unix_s = metrics.columns["attempt"], metrics.columns["time_unix_s"]
    hours = array("d", [0.0]) * len(attempts)
    before_s = 0.0
    now_s = 0.0
    attempt = None
    for row in metrics.order:
        if attempts[row] != attempt:
            attempt = attempts[row]
            before_s = now_s
            began_s = times_unix_s[row]
        now_s = before_s + max(0.0, times_unix_s[row] - began_s)
        hours[row] = now_s / HOUR_S
    return hours


def metric_names(run_dir: Path) -> list[str]:
    """The metrics of a run, in the order in which they come up."""
    return MetricColumns(run_dir).names


def is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


# Curves drawn with characters, for a terminal without pictures.

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


# Curves drawn as a picture, with matplotlib.

WIDTH_INCHES = 6.4
HEIGHT_INCHES = 3.6  # of one metric
MANY = 60  # points, from which on a curve has no marks
NO_DEVIATIONS: dict[tuple[str, str], list[float]] = {}


def draw_curves(
    file: Path,
    x_label: str,
    charts: dict[str, dict[str, Curve]],
    deviations: dict[tuple[str, str], list[float]] = NO_DEVIATIONS,
) -> None:
    """Writes a PNG, SVG or PDF: below each other a chart for each metric, with curves by name.

    Args:
        deviations: of each point of a curve, by its metric and name; a band shows them.
    """
    require_package("matplotlib", "a picture")
    from matplotlib.figure import Figure  # optional, and slow to import

    figure = Figure(
        figsize=(WIDTH_INCHES, HEIGHT_INCHES * len(charts)), layout="constrained", dpi=120
    )
    all_axes = figure.subplots(len(charts), squeeze=False)[:, 0]
    for axes, (metric, curves) in zip(all_axes, charts.items(), strict=True):
        for name, curve in curves.items():
            mark = "." if len(curve) < MANY else None
            # Not read as a formula.
            label = name.replace("$", r"\$")
            axes.plot(*zip(*curve, strict=True), marker=mark, linestyle="-", label=label)
            if (metric, name) in deviations:
                points = zip(curve, deviations[metric, name], strict=True)
                x, low, high = zip(*((x, y - sd, y + sd) for (x, y), sd in points), strict=True)
                axes.fill_between(x, low, high, alpha=0.2)
        axes.set(xlabel=x_label, ylabel=metric.replace("$", r"\$"))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    try:
        figure.savefig(file, metadata=PICTURE_FACTS)
    except ValueError as error:
        raise LabError(f"{file}: {error}. Give a name that ends in .png, .svg or .pdf") from error
    except OSError as error:
        raise LabError(
            f"{file} cannot be written: {error.strerror}. Name a file in a directory of yours"
        ) from error
