"""`lab runs list`: the table of runs."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from ..machine.counted import counted
from ..machine.terminal import printable, shows_colours
from ..project import Project
from .columns import (
    FACTS,
    Column,
    choose_columns,
    ellipsis,
    require_columns,
)
from .differences import ABSENT
from .filters import FIELDS, FILTERS, filter_rows, parse_filter, sort_rows
from .index import read_rows
from .marks import format_legend, marks_of
from .roots import run_roots
from .schema import Row
from .settings import differing_settings, value_of
from .status import JobStateOf

PUBLIC = ("run_id", "trial", "status", "created", "run_dir", "metrics")
CSV_COLUMNS = (
    "run_id",
    "trial",
    "status",
    "created",
    "run_dir",
    "seed",
    "who",
    "seconds",
    "gpu_seconds",
)
SORTED_BY = ("created", "seconds", "trial", "status")
COLOURS = {
    "finished": 32,
    "trained": 33,
    "failed": 31,
    "lost": 31,
    "damaged": 31,
    "interrupted": 33,
    "running": 36,
    "queued": 36,
}

# Widths of the table's columns, in characters.
ID_WIDTH = 22
STATUS_WIDTH = 11
MARK_WIDTH = 2  # behind the status, when a run has a mark
TRIAL_WIDTHS = (5, 18)  # least and most
REMARK_WIDTH = 6  # least
MAX_DAMAGED = 5  # lines about runs whose record cannot be read


def list_command(project: Project, args: list[str], job_state_of: JobStateOf | None = None) -> None:
    """`lab runs list`.

    Raises:
        LabError: a filter, a column or the key to sort by is not understood, or no run has it.
    """
    options = list_parser().parse_intermixed_args(args)
    filters = [parse_filter(text) for text in options.where]
    names = options.columns.split(",") if options.columns else []
    all_rows = read_rows(run_roots(project), job_state_of)
    rows = sort_rows(filter_rows(all_rows, filters), options.sort)
    require_columns(all_rows, names)
    report_damaged(rows)
    if options.json:
        print(json.dumps(public_rows(rows, names)))
    elif options.csv:
        write_csv(rows, names)
    elif rows:
        wanted = [
            wanted.key for wanted in filters if wanted.key not in FIELDS and wanted.sign != "="
        ]
        if options.sort not in (None, *SORTED_BY):
            wanted.append(options.sort)
        print(format_table(rows, list(dict.fromkeys(wanted)), names))
    elif all_rows:
        print(f"none of {counted(len(all_rows), 'run')}")
    else:
        print("no runs yet. Make one with: lab train trial=baseline")


def list_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab runs list",
        description="Lists runs, newest first, with the settings that differ between them. "
        + FILTERS,
    )
    parser.add_argument(
        "where",
        nargs="*",
        metavar="FILTER",
        help="for example: status=finished optimizer.lr=1e-3 'val/acc>0.9'",
    )
    parser.add_argument(
        "--sort",
        metavar="KEY",
        help="a metric (best first), a setting, " + ", ".join(SORTED_BY),
    )
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="show these, separated by commas: settings, metrics, " + ", ".join(FACTS),
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--json",
        action="store_true",
        help=f"an array of {', '.join(PUBLIC)}, and settings: those that differ, or --columns",
    )
    output.add_argument(
        "--csv", action="store_true", help="a line per run, a column per metric and setting"
    )
    return parser


def report_damaged(rows: list[Row]) -> None:
    """Names the runs whose record cannot be read."""
    damaged = [row for row in rows if row["status"] == "damaged"]
    for row in damaged[:MAX_DAMAGED]:
        print(f"lab: {row['run_dir']}: {printable(row['exception'])}", file=sys.stderr)
    if len(damaged) > MAX_DAMAGED:
        print(f"lab: … and {len(damaged) - MAX_DAMAGED} more", file=sys.stderr)


def public_rows(rows: list[Row], names: list[str]) -> list[dict]:
    """What --json prints: the keys of PUBLIC, and the settings `names`, or those that differ."""
    keys = names or list(differing_settings([row["settings"] for row in rows]))
    public = []
    for row in rows:
        values = {key: value_of(row["settings"], key) for key in keys}
        settings = {key: value for key, value in values.items() if value is not ABSENT}
        public.append({key: row[key] for key in PUBLIC} | {"settings": settings})
    return public


def write_csv(rows: list[Row], names: list[str]) -> None:
    """Prints a line per run; metrics and settings that a run lacks are empty."""
    import csv  # the table does not need it

    differing = differing_settings([row["settings"] for row in rows])
    settings = names or [key for key in differing if key not in CSV_COLUMNS]
    metrics = sorted({metric for row in rows for metric in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*CSV_COLUMNS, *settings, *metrics])
    for row in rows:
        values = [value_of(row["settings"], key) for key in settings]
        writer.writerow(
            [
                *(row[key] for key in CSV_COLUMNS),
                *("" if value is ABSENT else value for value in values),
                *(row["metrics"].get(metric) for metric in metrics),
            ]
        )


def format_table(rows: list[Row], wanted: list[str], names: list[str]) -> str:
    """Id, status, trial; the columns `names`, or those that fit; then tags and the reason.

    Below are the meanings of the marks at the statuses.

    Args:
        wanted: metrics and settings to show first, when `names` is empty.
    """
    least, most = TRIAL_WIDTHS
    names_of_trials = {row["trial"] for row in rows}
    trials = {trial: ellipsis(printable(trial), most) for trial in names_of_trials}
    trial_width = max(least, *map(len, trials.values()))
    marks = marks_of(rows)
    status_width = STATUS_WIDTH + MARK_WIDTH if marks else STATUS_WIDTH
    left = ID_WIDTH + 2 + status_width + 2 + trial_width
    width = shutil.get_terminal_size((80, 24)).columns - left
    columns = choose_columns(rows, names, wanted, width)
    remark_width = width - sum(2 + column.width for column in columns) - 2

    trials = {trial: f"{text:<{trial_width}}" for trial, text in trials.items()}
    parts = [
        ["run".ljust(ID_WIDTH), *(printable(row["run_id"]).ljust(ID_WIDTH) for row in rows)],
        ["status".ljust(status_width), *padded_statuses(rows, marks, status_width)],
        ["trial".ljust(trial_width), *(trials[row["trial"]] for row in rows)],
        *map(padded_cells, columns),
    ]
    if remark_width >= REMARK_WIDTH and not names:
        parts.append(["", *(format_remark(row, remark_width) for row in rows)])
    lines = ["  ".join(cells).rstrip() for cells in zip(*parts, strict=True)]
    return "\n".join([*lines, *format_legend(marks)])


def padded_statuses(rows: list[Row], marks: dict[str, str], width: int) -> list[str]:
    """Each status with its mark, in `width` characters; in its colour on a terminal."""
    texts = []
    for row in rows:
        text = row["status"].ljust(STATUS_WIDTH)
        if marks:
            text = f"{text} {marks.get(row['run_dir'], '')}".ljust(width)
        texts.append(text)
    if not shows_colours(sys.stdout):
        return texts
    colours = [COLOURS[row["status"]] for row in rows]
    return [f"\033[{colour}m{text}\033[0m" for colour, text in zip(colours, texts, strict=True)]


def padded_cells(column: Column) -> list[str]:
    """The title and the cells of a column, all as long as the longest."""
    width = column.width
    return [text.rjust(width) for text in (column.title, *column.cells)]


def format_remark(row: Row, width: int) -> str:
    """The tags of a run and what it is for, in at most `width` characters."""
    if not row["tags"] and not row["why"]:
        return ""
    tags = [f"#{tag}" for tag in row["tags"]]
    return ellipsis(printable(" ".join([*tags, row["why"] or ""]).strip()), width)
