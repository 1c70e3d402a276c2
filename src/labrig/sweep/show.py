"""`lab sweep show`: how far a sweep is, its best points, which settings matter, what it cost."""

from __future__ import annotations

import json
import os
import random
import statistics
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from ..command_parser import CommandParser
from ..errors import LabError, require_package
from ..machine.own_output import PICTURE_FACTS, is_marked, refuse_to_overwrite
from ..machine.text_formats import HOUR_S, counted, printable
from ..machine.text_table import TextColumn, text_table
from ..project import Project
from ..record.read.rows import read_rows
from ..record.read.run import run_roots
from .points import Points

N_BEST = 5
BAR_WIDTH = 30  # columns


def show_command(project: Project, args: list[str]) -> int:
    """`lab sweep show`."""
    parser = CommandParser(
        prog="lab sweep show",
        description="How far a sweep is, its best points, which settings matter, what it cost.",
    )
    parser.add_argument(
        "sweep", nargs="?", metavar="SWEEP", help="an id or its beginning; default: the newest"
    )
    parser.add_argument(
        "--plot",
        metavar="DIRECTORY",
        nargs="?",
        const="",
        help="draw history, slice, contour and parallel plots as PNG (default: into the sweep)",
    )
    parser.add_argument("--json", action="store_true", help="for scripts: all points")
    options = parser.parse_args(args)
    require_package("optuna", "lab sweep")
    from .folder import find_sweep
    from .points import Points

    points = Points(find_sweep(run_roots(project), options.sweep))
    if options.json:
        print(json.dumps(as_data(points)))
        return 0
    print("\n".join(format_sweep(points)))
    if options.plot is not None:
        directory = Path(options.plot) if options.plot else points.sweep.dir / OWN_DIRECTORY
        for path in draw_plots(points, directory):
            print(os.path.relpath(path))
    return 0


def format_sweep(points: Any) -> list[str]:
    """The lines of the command."""
    from .points import format_best

    sweep = points.sweep
    record, definition = sweep.record, sweep.definition
    goals = zip(definition.directions, definition.metrics, strict=True)
    best = format_best(points, N_BEST)
    titles = ["best", *[""] * len(best)]
    lines = [
        f"sweep       {sweep.id} of {printable(record['who'])}, {record['created'][:16]}",
        f"search      {', '.join(' '.join(goal) for goal in goals)} by {definition.sampler}",
        *[f"            {line}" for line in definition.space],
        f"points      {format_states(points)}",
        f"cost        {format_cost(points)}",
        *[f"{title:<11} {line}" for title, line in zip(titles, best, strict=False)],
        *format_importances(points),
    ]
    if record["why"]:
        lines.insert(1, f"why         {printable(record['why'])}")
    journal = os.path.relpath(sweep.journal)
    return [
        *lines,
        f"plots: lab sweep show {sweep.id} --plot",
        f"live:  optuna-dashboard {journal}",
    ]


def format_states(points: Any) -> str:
    """`18 of 20 done: 15 complete, 3 pruned, 1 fail, 1 running`."""
    names = Counter(map(points.state_of, points.own()))
    listed = ", ".join(f"{n} {name}" for name, n in names.items()) or "none yet"
    n_earlier = len(points.trials()) - len(points.own())
    earlier = f"; {n_earlier} of earlier runs" if n_earlier else ""
    return f"{points.n_points - points.n_open()} of {points.n_points} done: {listed}{earlier}"


def format_cost(points: Any) -> str:
    """Hours and GPU-hours of the sweep's runs, failed ones too."""
    rows = [row for row in read_rows([points.sweep.runs]) if row["parent"] == points.sweep.id]
    hours = sum(row["seconds"] or 0 for row in rows) / HOUR_S
    gpu_hours = sum(row["gpu_seconds"] or 0 for row in rows) / HOUR_S
    return f"{counted(len(rows), 'run')}, {hours:.3g} hours, {gpu_hours:.3g} GPU-hours"


METHOD = "PED-ANOVA"  # arXiv:2304.10255; it needs no further package
FEWEST_POINTS = 20  # in fewer, shares are chance
N_DRAWS = 20


@dataclass(frozen=True)
class Importance:
    """The share of a setting in what makes points good or bad, from 0 to 1.

    Args:
        sd: standard deviation of the share, when as many points are drawn from the points again.
    """

    share: float
    sd: float


def enough_points(points: Any) -> int:
    """How many points have to be complete before shares are shown; 0 where one setting is searched."""
    n_settings = len(points.sweep.definition.space)
    return max(FEWEST_POINTS, 10 * n_settings) if n_settings > 1 else 0


def importances(points: Any) -> dict[str, dict[str, Importance]]:
    """By metric, the importance of each setting; empty for one setting, for few points, and where all
    points have the same value.
    """
    from optuna.trial import TrialState

    complete = points.trials(TrialState.COMPLETE)
    if not 0 < enough_points(points) <= len(complete):
        return {}
    warnings.simplefilter("ignore")  # it warns about what `sign` does
    draw = random.Random(0)
    drawn = [draw.choices(complete, k=len(complete)) for _ in range(N_DRAWS)]
    by_metric = {}
    definition = points.sweep.definition
    for n, metric in enumerate(definition.metrics):
        if len({trial.values[n] for trial in complete}) == 1:
            continue  # nothing made a difference
        sign = -1 if definition.directions[n] == "maximize" else 1  # low is good for PED-ANOVA
        shares = anova_shares(complete, n, sign)
        again = [anova_shares(each, n, sign) for each in drawn]
        by_metric[metric] = {
            name: Importance(share, statistics.stdev(each.get(name, 0.0) for each in again))
            for name, share in shares.items()
        }
    return by_metric


def anova_shares(trials: list[Any], n: int, sign: int) -> dict[str, float]:
    """The share of each setting by METHOD, the largest first.

    Args:
        n: the number of the metric.
        sign: 1 where its low values are good, else -1.
    """
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    directions: Any = ["minimize"] * len(trials[0].values)
    study = optuna.create_study(directions=directions)
    study.add_trials(trials)
    return get_param_importances(
        study,
        evaluator=PedAnovaImportanceEvaluator(),
        target=lambda trial: sign * trial.values[n],
    )


def format_importances(points: Any) -> list[str]:
    """For each metric a line for each setting; for few points, from how many on."""
    by_metric = importances(points)
    lines = []
    for metric, shares in by_metric.items():
        lines.append(
            f"which settings matter for {metric} ({METHOD}; ± when points are drawn again):"
        )
        lines += format_shares(shares)
    if not by_metric and len(points.own()) < enough_points(points):
        lines.append(
            f"which settings matter is shown from {enough_points(points)} complete points on"
        )
    return lines


def format_shares(shares: dict[str, Importance]) -> list[str]:
    """A line for each setting: its share in per cent, and as a bar."""
    columns = [
        TextColumn("", [f"  {name}" for name in shares], 30),
        TextColumn("", [f"{each.share:.0%}" for each in shares.values()], 4, on_right=True),
        TextColumn("", [f"± {each.sd:.0%}" for each in shares.values()], 6),
        TextColumn("", ["#" * round(each.share * BAR_WIDTH) for each in shares.values()]),
    ]
    return text_table(columns, gap=" ")[1:]


def as_data(points: Any) -> dict[str, Any]:
    """The sweep and its points, as --json prints them."""
    from .points import RUN

    rows = [
        {
            "point": trial.number,
            "state": points.state_of(trial),
            "values": trial.values,
            "params": trial.params,
            "run": trial.user_attrs.get(RUN, "").rpartition("/")[2] or None,
        }
        for trial in points.trials()
    ]
    record = {key: value for key, value in points.sweep.record.items() if key != "sha256"}
    done = {"n_points": points.n_points, "n_open": points.n_open()}
    by_metric = importances(points)
    importance = {
        "importance": {
            metric: {name: each.share for name, each in shares.items()}
            for metric, shares in by_metric.items()
        },
        "importance_sd": {
            metric: {name: each.sd for name, each in shares.items()}
            for metric, shares in by_metric.items()
        },
        "importance_by": METHOD,
    }
    return record | done | importance | {"points": rows}


# The plots of a sweep as PNG files, drawn by Optuna with matplotlib.

OWN_DIRECTORY = "plots"  # in that of a sweep
MAX_CONTOURS = 4  # settings, the most important ones: each pair of them is a picture


def draw_plots(points: Points, directory: Path) -> list[Path]:
    """Draws history, slice, parallel and contour plots of each metric; of two also their front.

    Returns:
        The files.
    """
    require_package("matplotlib", "--plot")
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
    # In the directory of the sweep all pictures are its own.
    is_own = is_marked if directory != points.sweep.dir / OWN_DIRECTORY else bool
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
            path = directory / f"{metric.replace('/', '-')}-{kind}.png"
            refuse_to_overwrite(path, is_own)
            drawn.append(save(axes, path))
    if len(points.sweep.definition.metrics) == 2:
        path = directory / "front.png"
        refuse_to_overwrite(path, is_own)
        drawn.append(save(plots.plot_pareto_front(points.study), path))
    return drawn


def value_of(n: int) -> Any:
    """A function from a point to the value of the n-th metric."""
    return lambda trial: trial.values[n]


def save(axes: Any, path: Path) -> Path:
    """Writes the figure of one or several axes, and forgets it."""
    import matplotlib.pyplot as plt

    first = axes if hasattr(axes, "figure") else axes.flat[0]
    first.figure.savefig(path, dpi=120, bbox_inches="tight", metadata=PICTURE_FACTS)
    plt.close(first.figure)
    return path
