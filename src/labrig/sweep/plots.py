"""The plots of a sweep as PNG files, drawn by Optuna with matplotlib."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from ..errors import LabError
from .points import Points

MAX_CONTOURS = 4  # settings, the most important ones: each pair of them is a picture


def draw_plots(points: Points, directory: Path) -> list[Path]:
    """Draws history, slice, parallel and contour plots of each metric; of two also their front.

    Returns:
        The files.

    Raises:
        LabError: matplotlib is missing, or no point is complete.
    """
    if find_spec("matplotlib") is None:
        raise LabError("--plot needs the package matplotlib: make add PACKAGE=matplotlib")
    if not points.trials(TrialState.COMPLETE):
        raise LabError(
            "no point was trained to its end yet, so there is nothing to draw. "
            "Wait for one: lab queue"
        )
    import matplotlib

    matplotlib.use("agg")
    from optuna.visualization import matplotlib as plots

    warnings.simplefilter("ignore")  # Optuna calls its plots experimental
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for n, metric in enumerate(points.sweep.definition.metrics):
        target = None if len(points.sweep.definition.metrics) == 1 else value_of(n)
        arguments = {"target": target, "target_name": metric}
        kinds = {
            "history": plots.plot_optimization_history(points.study, **arguments),
            "slice": plots.plot_slice(points.study, **arguments),
            "parallel": plots.plot_parallel_coordinate(points.study, **arguments),
        }
        names = [setting.name for setting in points.sweep.definition.settings][:MAX_CONTOURS]
        if len(names) > 1:
            kinds["contour"] = plots.plot_contour(points.study, params=names, **arguments)
        for kind, axes in kinds.items():
            drawn.append(save(axes, directory / f"{metric.replace('/', '-')}-{kind}.png"))
    if len(points.sweep.definition.metrics) == 2:
        drawn.append(save(plots.plot_pareto_front(points.study), directory / "front.png"))
    return drawn


def value_of(n: int) -> Any:
    """A function from a point to the value of the n-th metric."""
    return lambda trial: trial.values[n]


def save(axes: Any, path: Path) -> Path:
    """Writes the figure of one or several axes, and forgets it."""
    import matplotlib.pyplot as plt

    first = axes if hasattr(axes, "figure") else axes.flat[0]
    first.figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(first.figure)
    return path
