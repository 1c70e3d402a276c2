"""`lab runs plot`: the curves of several runs over each other."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from ..errors import LabError, nearest
from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .curves import AXES, Curve, metric_names, read_curve
from .draw_curves import draw_curves
from .find import RUN_HELP, find_run
from .roots import run_roots
from .run import Run
from .text_curves import MARKS, text_curves

DESCRIPTION = "Draws a metric of one or more runs: with characters, or with -o as a picture."


def plot_command(project: Project, args: list[str]) -> None:
    """`lab runs plot`.

    Raises:
        LabError: there is no such run or metric, or the picture cannot be written.
    """
    options = plot_parser().parse_args(args)
    runs = [find_run(run_roots(project), word) for word in options.run]
    if len(runs) > len(MARKS):
        raise LabError(f"{len(runs)} runs are too many for one picture; at most {len(MARKS)}")
    charts = {metric: curves_of(runs, metric, options.x) for metric in options.metric}
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
        "--metric", nargs="+", default=["val/loss"], metavar="NAME", help="default: val/loss"
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
