"""`lab sweep show`: how far a sweep is, its best points, which settings matter, what it cost."""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from ..record.index import read_rows
from ..record.roots import run_roots
from .start import require_optuna

N_BEST = 5
BAR_WIDTH = 30  # columns
HOUR_S = 3600


def show_command(project: Project, args: list[str]) -> int:
    """`lab sweep show`.

    Raises:
        LabError: there is no such sweep, or a package is missing.
    """
    parser = argparse.ArgumentParser(
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
    require_optuna()
    from .folder import find_sweep
    from .points import Points

    points = Points(find_sweep(run_roots(project), options.sweep))
    if options.json:
        print(json.dumps(as_data(points)))
        return 0
    print("\n".join(format_sweep(points)))
    if options.plot is not None:
        from .plots import draw_plots

        directory = Path(options.plot) if options.plot else points.sweep.dir / "plots"
        for path in draw_plots(points, directory):
            print(os.path.relpath(path))
    return 0


def format_sweep(points: Any) -> list[str]:
    """The lines of the command."""
    from .progress import format_best

    sweep = points.sweep
    record, definition = sweep.record, sweep.definition
    goals = zip(definition.directions, definition.metrics, strict=True)
    lines = [
        f"sweep       {sweep.id} of {printable(record['who'])}, {record['created'][:16]}",
        f"search      {', '.join(' '.join(goal) for goal in goals)} by {definition.sampler}",
        *[f"            {line}" for line in definition.space],
        f"points      {format_states(points)}",
        f"cost        {format_cost(points)}",
        *format_best(points, N_BEST),
    ]
    for metric, shares in importances(points).items():
        lines.append(f"which settings matter for {metric}:")
        lines += [format_share(name, share) for name, share in shares.items()]
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
    names = Counter(trial.state.name.lower() for trial in points.own())
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


def importances(points: Any) -> dict[str, dict[str, float]]:
    """By metric, the share of each setting in what makes points good or bad; empty for few points.

    PED-ANOVA (arXiv:2304.10255) needs no further package.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    warnings.simplefilter("ignore")  # it warns about what `sign` does
    n_settings = len(points.sweep.definition.space)
    if n_settings < 2 or len(points.trials(TrialState.COMPLETE)) < 2 * n_settings:
        return {}
    shares = {}
    definition = points.sweep.definition
    for n, metric in enumerate(definition.metrics):
        sign = -1 if definition.directions[n] == "maximize" else 1  # low is good for PED-ANOVA

        def value_of(trial: Any, n: int = n, sign: int = sign) -> float:
            return sign * trial.values[n]

        shares[metric] = get_param_importances(
            points.study, evaluator=PedAnovaImportanceEvaluator(), target=value_of
        )
    return shares


def format_share(name: str, share: float) -> str:
    return f"  {name:<28} {share:4.0%} {'#' * round(share * BAR_WIDTH)}"


def as_data(points: Any) -> dict[str, Any]:
    """The sweep and its points, as --json prints them."""
    from .points import RUN

    rows = [
        {
            "point": trial.number,
            "state": trial.state.name.lower(),
            "values": trial.values,
            "params": trial.params,
            "run": trial.user_attrs.get(RUN, "").rpartition("/")[2] or None,
        }
        for trial in points.trials()
    ]
    record = {key: value for key, value in points.sweep.record.items() if key != "sha256"}
    done = {"n_points": points.n_points, "n_open": points.n_open()}
    return record | done | {"importance": importances(points), "points": rows}
