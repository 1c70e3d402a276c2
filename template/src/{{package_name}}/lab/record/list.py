# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`: the table of runs."""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from ..project import Project
from .filters import FILTERS, parse_filter, sort_rows
from .index import read_rows
from .marks import format_legend, marks_of
from .ranking import require_metric
from .schema import Row
from .status import JobStateOf

PUBLIC = ("run_id", "trial", "status", "created", "run_dir", "metrics")
CSV_COLUMNS = ("run_id", "trial", "status", "created", "run_dir", "seed", "who", "seconds")
FAVOURITES = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
COLOURS = {"finished": 32, "failed": 31, "lost": 31, "interrupted": 33, "running": 36, "queued": 36}

# Widths of the table's columns, in characters.
GAP = 2
ID_WIDTH = 22
STATUS_WIDTH = 11
MARK_WIDTH = 2  # behind the status, when a run has a mark
TRIAL_WIDTHS = (5, 18)  # least and most
METRIC_WIDTH = 8  # least
REMARK_WIDTH = 6  # least


def list_command(project: Project, args: list[str], job_state_of: JobStateOf | None = None) -> None:
    """`lab runs list`.

    Raises:
        LabError: a filter or the key to sort by is not understood, or no run has the metric.
    """
    parser = argparse.ArgumentParser(
        prog="lab runs list", description="Lists runs, newest first. " + FILTERS
    )
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help="for example: status=finished 'val/acc>0.9'"
    )
    parser.add_argument(
        "--sort", metavar="KEY", help="a metric (best first), trial, status, seconds or created"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="an array of " + ", ".join(PUBLIC))
    output.add_argument("--csv", action="store_true", help="a line per run, a column per metric")
    options = parser.parse_args(args)
    filters = [parse_filter(text) for text in options.where]
    all_rows = read_rows(project.paths.runs, job_state_of)
    metrics = [wanted.key for wanted in filters if wanted.is_metric]
    for metric in metrics:
        require_metric(all_rows, metric)
    rows = [row for row in all_rows if all(wanted.matches(row) for wanted in filters)]
    rows = sort_rows(rows, options.sort)
    if options.json:
        print(json.dumps([{key: row[key] for key in PUBLIC} for row in rows]))
    elif options.csv:
        write_csv(rows)
    elif rows:
        if options.sort:
            metrics.append(options.sort)
        width = shutil.get_terminal_size((80, 24)).columns
        print(format_table(rows, metrics, width, colour=sys.stdout.isatty()))
    elif all_rows:
        print(f"none of {len(all_rows)} runs")
    else:
        print("no runs yet. Make one with: lab train trial=baseline")


def write_csv(rows: list[Row]) -> None:
    """Prints a line per run; metrics that a run lacks are empty."""
    metrics = sorted({metric for row in rows for metric in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *metrics])
    for row in rows:
        facts = [row[key] for key in CSV_COLUMNS]
        values = [row["metrics"].get(metric) for metric in metrics]
        writer.writerow(facts + values)


@dataclass(frozen=True)
class TableLayout:
    """The widths of a table's columns, in characters; `metric_widths` is by metric, in order."""

    trial_width: int
    metric_widths: dict[str, int]
    remark_width: int  # less than REMARK_WIDTH: no room for remarks
    marks: dict[str, str]  # by run directory
    status_width: int


def format_table(rows: list[Row], metrics: list[str], width: int, colour: bool) -> str:
    """Id, status, trial, then as many metrics as fit, then tags and the reason for the run.

    Below are the meanings of the marks at the statuses.

    Args:
        metrics: those to show first.
        width: of the table, in characters.
    """
    layout = plan_layout(rows, metrics, width)
    head = (
        f"{'run':<{ID_WIDTH}}  {'status':<{layout.status_width}}  {'trial':<{layout.trial_width}}"
    )
    for metric, metric_width in layout.metric_widths.items():
        head += f"  {metric:>{metric_width}}"
    lines = [format_row(row, layout, colour) for row in rows]
    return "\n".join([head, *lines, *format_legend(layout.marks)])


def plan_layout(rows: list[Row], metrics: list[str], width: int) -> TableLayout:
    """Decides which metrics fit on a line of `width` characters."""
    least, most = TRIAL_WIDTHS
    longest_trial = max(len(row["trial"]) for row in rows)
    trial_width = min(most, max(least, longest_trial))
    marks = marks_of(rows)
    status_width = STATUS_WIDTH + MARK_WIDTH if marks else STATUS_WIDTH
    used = ID_WIDTH + GAP + status_width + GAP + trial_width
    existing = {metric: None for row in rows for metric in row["metrics"]}
    metric_widths = {}
    for metric in dict.fromkeys([*metrics, *FAVOURITES, *existing]):
        metric_width = max(METRIC_WIDTH, len(metric))
        if metric in existing and used + GAP + metric_width <= width:
            metric_widths[metric] = metric_width
            used += GAP + metric_width
    return TableLayout(trial_width, metric_widths, width - used - GAP, marks, status_width)


def format_row(row: Row, layout: TableLayout, colour: bool) -> str:
    """One line of the table."""
    status = f"{row['status']:<{layout.status_width}}"
    if row["run_dir"] in layout.marks:
        status = f"{row['status']:<{STATUS_WIDTH}} {layout.marks[row['run_dir']]}"
    if colour:
        status = f"\033[{COLOURS[row['status']]}m{status}\033[0m"
    trial = ellipsis(row["trial"], layout.trial_width)
    line = f"{row['run_id']:<{ID_WIDTH}}  {status}  {trial:<{layout.trial_width}}"
    for metric, metric_width in layout.metric_widths.items():
        line += f"  {format_value(row['metrics'].get(metric)):>{metric_width}}"
    tags = [f"#{tag}" for tag in row["tags"]]
    remark = " ".join([*tags, row["why"] or ""]).strip().replace("\n", " ")
    if remark and layout.remark_width >= REMARK_WIDTH:
        line += "  " + ellipsis(remark, layout.remark_width)
    return line


def ellipsis(text: str, width: int) -> str:
    """`text`, cut to `width` characters with "…" at its end when it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def format_value(value: Any) -> str:
    """A metric with four digits; "-" when there is none."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
