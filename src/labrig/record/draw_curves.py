"""Curves drawn as a picture, with matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import LabError
from .curves import Curve

WIDTH_INCHES = 6.4
HEIGHT_INCHES = 3.6  # of one metric
MANY = 60  # points, from which on a curve has no marks


def draw_curves(file: Path, x_label: str, charts: dict[str, dict[str, Curve]]) -> None:
    """Writes a PNG, SVG or PDF: below each other a chart for each metric, with curves by name.

    Raises:
        LabError: matplotlib is not installed, or cannot write such a file.
    """
    require_matplotlib()
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
        figure.savefig(file)
    except ValueError as error:
        raise LabError(f"{file}: {error}. Give a name that ends in .png, .svg or .pdf") from error
    except OSError as error:
        raise LabError(
            f"{file} cannot be written: {error.strerror}. Name a file in a directory of yours"
        ) from error


def require_matplotlib() -> None:
    """Makes sure that pictures can be drawn.

    Raises:
        LabError: with what to type.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise LabError("pictures need the package matplotlib: make add PACKAGE=matplotlib")
