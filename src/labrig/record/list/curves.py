"""The curves of a run: a metric over steps, epochs or hours."""

from __future__ import annotations

import argparse
import math
import shutil
import string
import sys
from array import array
from itertools import pairwise
from pathlib import Path

from ...errors import LabError, nearest, require_package
from ...machine.counted import counted
from ...machine.own_output import PICTURE_FACTS, refuse_to_overwrite
from ...machine.terminal import printable
from ...machine.text_formats import HOUR_S
from ...project import Project
from ..files.metric_columns import MetricColumns, extreme_places
from ..read.roots import run_roots
from ..read.run import Run
from .alike import evaluated_on
from .find import RUN_HELP, find_run
from .ranking import monitor_of
from .rows import read_row

AXES = ("step", "epoch", "hours")
MOST_DRAWN = 5000  # points; a picture has a tenth of the columns
Curve = list[tuple[float, float]]


def read_curve(run_dir: Path, metric: str, axis: str = "step") -> Curve:
    """The finite values of a metric, in order; of very many only those that a picture shows.

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
    shown = extreme_places(values, MOST_DRAWN)
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


def draw_curves(file: Path, x_label: str, charts: dict[str, dict[str, Curve]]) -> None:
    """Writes a PNG, SVG or PDF: below each other a chart for each metric, with curves by name.

    Raises:
        LabError: matplotlib is not installed, or cannot write such a file.
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


# `lab runs plot`: the curves of several runs over each other.

DESCRIPTION = "Draws a metric of one or more runs: with characters, or with -o as a picture."


def plot_command(project: Project, args: list[str]) -> None:
    """`lab runs plot`.

    Raises:
        LabError: there is no such run or metric, or the picture cannot be written.
        Refused: -o names a file that is no such picture.
    """
    options = plot_parser().parse_args(args)
    if options.output:
        refuse_to_overwrite(Path(options.output))
    runs = [find_run(run_roots(project), word) for word in options.run]
    if len(runs) > len(MARKS):
        raise LabError(f"{len(runs)} runs are too many for one picture; at most {len(MARKS)}")
    rows = [read_row(str(run.dir)) for run in runs]
    metrics = options.metric or [monitor_of(rows)]
    charts = {metric: curves_of(runs, metric, options.x) for metric in metrics}
    for metric in metrics:
        if len({evaluated_on(row, metric) for row in rows}) > 1:
            print(f"lab: {metric} is of other data or samples in some of them", file=sys.stderr)
    if options.output:
        file = Path(options.output)
        draw_curves(file, options.x, charts)
        print(f"wrote {printable(file)}")
        return
    width = shutil.get_terminal_size().columns
    for metric, curves in charts.items():
        print(printable(metric))
        print("\n".join(text_curves(list(curves.values()), options.x, width)))
        for mark, (name, curve) in zip(MARKS, curves.items(), strict=False):
            print(f"  {mark}  {printable(name)}  last {curve[-1][1]:.6g}")


def plot_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab runs plot", description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--metric", nargs="+", metavar="NAME", help="default: checkpoint.monitor of the first run"
    )
    parser.add_argument("--x", choices=AXES, default="step", help="default: step")
    parser.add_argument("-o", dest="output", metavar="FILE", help="a .png, .svg or .pdf to write")
    return parser


def curves_of(runs: list[Run], metric: str, axis: str) -> dict[str, Curve]:
    """The curve of each run that has the metric, by its trial and id.

    Raises:
        LabError: no run has it; the message names those there are.
    """
    curves = {f"{run.trial} {run.id}": read_curve(run.dir, metric, axis) for run in runs}
    curves = {name: curve for name, curve in curves.items() if curve}
    if curves:
        return curves
    names = sorted({name for run in runs for name in metric_names(run.dir)})
    listed = ", ".join(map(printable, names)) or "none"
    raise LabError(
        f"no curve of {metric!r} in {counted(len(runs), 'run')}{nearest(metric, names)}. "
        f"Metrics: {listed}"
    )
