"""`lab runs plot`: the curves of runs over each other, and of experiments the mean over their seeds."""

from __future__ import annotations

import argparse
import math
import re
import shutil
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError, nearest
from ...machine.own_output import refuse_to_overwrite
from ...machine.text_formats import counted, printable
from ...project import Project
from ..files.schema import Row
from ..list.curves import (
    AXES,
    MARKS,
    MOST_DRAWN,
    Curve,
    draw_curves,
    metric_names,
    read_curve,
    text_curves,
)
from ..read.evaluations import evaluated_on
from ..read.filters import FILTERS, none_of, parse_filter
from ..read.find import RUN_HELP, find_run
from ..read.ranking import monitor_of
from ..read.rows import read_row, read_rows
from ..read.run import run_roots
from .experiments import group_experiments
from .table import choose_rows, lines_of, names_of_columns, note

DESCRIPTION = (
    "Draws a metric of runs: with characters, or with -o as a picture. Runs that are chosen by filters "
    "are drawn as their experiments: the mean over the seeds, with a band of one deviation."
)


@dataclass(frozen=True)
class PlottedLine:
    """What one curve shows: a run, or the mean of runs that differ in their seed only."""

    name: str
    rows: list[Row]


def plot_command(project: Project, args: list[str]) -> None:
    """`lab runs plot`."""
    options = plot_parser().parse_intermixed_args(args)
    if options.output:
        refuse_to_overwrite(Path(options.output))
    lines = choose_lines(project, options.what, is_mean=options.x != "hours")
    if len(lines) > len(MARKS):
        raise LabError(
            f"{len(lines)} curves are too many for one picture; at most {len(MARKS)}. Add a filter"
        )
    rows = [row for line in lines for row in line.rows]
    metrics = options.metric or [monitor_of(rows)]
    charts: dict[str, dict[str, Curve]] = {}
    deviations: dict[tuple[str, str], list[float]] = {}
    for metric in metrics:
        charts[metric] = {}
        for line in lines:
            curve, of_points = curve_of(line, metric, options.x)
            if curve:
                charts[metric][line.name] = curve
            if any(of_points):
                deviations[metric, line.name] = of_points
        if not charts[metric]:
            raise no_curve(rows, metric)
        if len({evaluated_on(row, metric) for row in rows}) > 1:
            print(f"lab: {metric} is of other data or samples in some of them", file=sys.stderr)
    if options.output:
        file = Path(options.output)
        draw_curves(file, options.x, charts, deviations)
        print(f"wrote {printable(file)}")
        return
    width = shutil.get_terminal_size().columns
    for metric, curves in charts.items():
        print(printable(metric))
        print("\n".join(text_curves(list(curves.values()), options.x, width)))
        for mark, (name, curve) in zip(MARKS, curves.items(), strict=False):
            of_points = deviations.get((metric, name))
            deviation = f" ± {of_points[-1]:.2g}" if of_points else ""
            print(f"  {mark}  {printable(name)}  last {curve[-1][1]:.6g}{deviation}")


def plot_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="lab runs plot", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "what", metavar="RUN|FILTER", nargs="+", help=f"trial=wide,deep; or {RUN_HELP}"
    )
    parser.add_argument(
        "--metric", nargs="+", metavar="NAME", help="default: checkpoint.monitor of the first run"
    )
    parser.add_argument("--x", choices=AXES, default="step", help="default: step")
    parser.add_argument("-o", dest="output", metavar="FILE", help="a .png, .svg or .pdf to write")
    return parser


def choose_lines(project: Project, words: list[str], is_mean: bool) -> list[PlottedLine]:
    """The runs that are named, each for itself, then the experiments of those that pass the filters.

    Args:
        is_mean: False draws each run of these, too: their hours have no mean.
    """
    where = [word for word in words if re.search("[=<>]", word)]
    runs = [find_run(run_roots(project), word) for word in words if word not in where]
    lines = [PlottedLine(f"{run.trial} {run.id}", [read_row(str(run.dir))]) for run in runs]
    if not where:
        return lines
    all_rows = read_rows(run_roots(project))
    rows, remarks = choose_rows(all_rows, where)
    for remark in remarks:
        note(remark)
    if not rows:
        none = none_of(all_rows, [parse_filter(text) for text in where])
        raise LabError(f"{none}. Runs: lab runs list")
    experiments = group_experiments(rows)
    names = names_of_columns(experiments, [], ())
    for texts, experiment in zip(lines_of(experiments, names), experiments, strict=True):
        value = " ".join(
            text if name == "trial" else f"{name}={text}"
            for name, text in zip(names, texts, strict=True)
        )
        if is_mean and len(experiment.rows) > 1:
            lines.append(PlottedLine(f"{value}, {len(experiment.rows)} seeds", experiment.rows))
        else:
            lines += [PlottedLine(f"{value} {row['run_id']}", [row]) for row in experiment.rows]
    return lines


def curve_of(line: PlottedLine, metric: str, axis: str) -> tuple[Curve, list[float]]:
    """The mean of the runs that have the metric, where all of them have a point, and the deviations there.

    The deviation is that of a sample, as in `lab runs table`; of one run there is none.
    """
    most = MOST_DRAWN if len(line.rows) == 1 else math.inf
    curves = [read_curve(Path(row["run_dir"]), metric, axis, most) for row in line.rows]
    curves = [curve for curve in curves if curve]
    if 0 < len(curves) < len(line.rows):
        note(
            f"{line.name}: {len(curves)} of {len(line.rows)} runs have {metric}, and the curve is of these"
        )
    if len(curves) < 2:
        return (curves[0] if curves else []), []
    by_place = [dict(curve) for curve in curves]
    places = sorted(set(by_place[0]).intersection(*by_place[1:]))
    values = [[of_run[place] for of_run in by_place] for place in places]
    mean = [(place, statistics.fmean(each)) for place, each in zip(places, values, strict=True)]
    return mean, [statistics.stdev(each) for each in values]


def no_curve(rows: list[Row], metric: str) -> LabError:
    """The error for a metric that no run has; the message names those there are."""
    names = sorted({name for row in rows for name in metric_names(Path(row["run_dir"]))})
    listed = ", ".join(map(printable, names)) or "none"
    return LabError(
        f"no curve of {metric!r} in {counted(len(rows), 'run')}{nearest(metric, names)}. "
        f"Metrics: {listed}"
    )
