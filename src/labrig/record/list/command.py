"""`lab runs list`: the table of runs."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from ...command_parser import CommandParser
from ...machine.text_formats import ellipsis, printable, shows_colours
from ...machine.text_table import TextColumn, text_table
from ...project import Project
from ..files.schema import Row
from ..read.fields import CSV, JSON, LIST, names_shown
from ..read.filters import (
    FIELDS,
    FILTERS,
    SORTED_BY,
    Filter,
    filter_rows,
    full_key,
    none_of,
    parse_filter,
    sort_rows,
)
from ..read.ranking import split_mode
from ..read.rows import read_rows
from ..read.run import run_roots
from ..read.settings import ABSENT, differing_settings, value_of
from ..read.status import job_state_of
from ..read.used import format_bytes, size_of_row
from .columns import IN_EVERY_TABLE, choose_columns, require_columns

# The marks in a list of runs, for what its numbers do not show.

CHANGED = "*"
SEVERAL = "+"
MISPLACED = "!"
PRUNED = "-"
MEANINGS = {
    MISPLACED: "its directory was renamed or copied",
    CHANGED: "attempts had other code, data or settings",
    PRUNED: "its weights were pruned, its numbers are kept",
    SEVERAL: "several attempts",
}


def marks_of(rows: list[Row]) -> dict[str, str]:
    """The marks by run directory; most runs have none."""
    marks = {row["run_dir"]: mark_of(row) for row in rows}
    return {run_dir: mark for run_dir, mark in marks.items() if mark}


def mark_of(row: Row) -> str:
    """One character: the most important mark of a run; empty for most."""
    if row["renamed_from"] or row["is_copied"]:
        return MISPLACED
    if row["changes"]:
        return CHANGED
    if row["pruned"]:
        return PRUNED
    if (row["n_attempts"] or 0) > 1:
        return SEVERAL
    return ""


def format_legend(marks: dict[str, str]) -> list[str]:
    """What the marks mean, a line each."""
    existing = set(marks.values())
    return [
        f"{mark} {text}: lab runs show RUN" for mark, text in MEANINGS.items() if mark in existing
    ]


# Scripts may count the columns of --csv: the first ones keep their places.
FIRST_IN_CSV = ("run_id", "trial", "status", "created", "run_dir", "seed")
RED, GREEN, YELLOW, CYAN = 31, 32, 33, 36  # of a terminal's text
COLOURS = {
    "finished": GREEN,
    "trained": YELLOW,
    "failed": RED,
    "cancelled": YELLOW,
    "refused": RED,
    "lost": RED,
    "damaged": RED,
    "interrupted": YELLOW,
    "running": CYAN,
    "queued": CYAN,
    "unknown": YELLOW,
}

# Widths of the table's columns, in characters.
ID_WIDTH = 22
STATUS_WIDTH = 11
MARK_WIDTH = 2  # behind the status, when a run has a mark
MAX_TRIAL_WIDTH = 18
REMARK_WIDTH = 6  # least
MAX_DAMAGED = 5  # lines about runs whose record cannot be read


def list_command(project: Project, args: list[str]) -> None:
    """`lab runs list`."""
    options = list_parser().parse_intermixed_args(args)
    filters = [parse_filter(text) for text in options.where]
    all_rows = read_rows(run_roots(project), job_state_of())
    names = typed_columns(all_rows, options.columns)
    rows = sort_rows(filter_rows(all_rows, filters), options.sort)
    if "size" in (names or []):
        for row in rows:
            row["size"] = format_bytes(size_of_row(row))
    report_damaged(rows)
    if options.json:
        print(json.dumps(public_rows(rows, names)))
    elif options.csv:
        write_csv(rows, names)
    elif rows:
        wanted = [full_key(all_rows, key) for key in keys_of_interest(filters, options.sort)]
        print(format_table(rows, wanted, names, all_rows))
    elif all_rows:
        print(none_of(all_rows, filters))
    else:
        print("no runs yet. Make one with: lab train trial=baseline")


def typed_columns(rows: list[Row], columns: str | None) -> list[str] | None:
    """The names of --columns without those that every table has; None when it was not typed."""
    if not columns:
        return None
    typed = [name for name in columns.split(",") if name not in IN_EVERY_TABLE]
    names = [full_key(rows, name) for name in typed]
    require_columns(rows, names)
    return names


def keys_of_interest(filters: list[Filter], sorted_by: str | None) -> list[str]:
    """The metrics and settings that the user compares or sorts by, each once."""
    keys = [each.key for each in filters if each.key not in FIELDS and each.sign != "="]
    if sorted_by not in (None, *SORTED_BY):
        keys.append(split_mode(sorted_by)[0])
    return list(dict.fromkeys(keys))


def list_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
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
        help="a metric (best first; val/x:max: highest first), a setting, " + ", ".join(SORTED_BY),
    )
    parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="show these, separated by commas: settings, metrics, " + ", ".join(names_shown(LIST)),
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--json",
        action="store_true",
        help=f"an array of {', '.join(names_shown(JSON))}, and settings: those that differ, or --columns",
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


def public_rows(rows: list[Row], names: list[str] | None) -> list[dict]:
    """What --json prints: fields, and the settings `names`, or those that differ."""
    fields = names_shown(JSON)
    keys = names
    if keys is None:
        keys = list(differing_settings([row["settings"] for row in rows]))
    public = []
    for row in rows:
        values = {key: value_of(row["settings"], key) for key in keys}
        settings = {key: value for key, value in values.items() if value is not ABSENT}
        public.append({name: row[name] for name in fields} | {"settings": settings})
    return public


def write_csv(rows: list[Row], names: list[str] | None) -> None:
    """Prints a line per run; metrics and settings that a run lacks are empty."""
    import csv  # the table does not need them

    from ...machine.text_table import spreadsheet_cell

    fields = list(dict.fromkeys([*FIRST_IN_CSV, *names_shown(CSV)]))
    settings = names
    if settings is None:
        differing = differing_settings([row["settings"] for row in rows])
        settings = [key for key in differing if key not in fields]
    metrics = sorted({metric for row in rows for metric in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, [*fields, *settings, *metrics]))
    for row in rows:
        values = [value_of(row["settings"], key) for key in settings]
        cells = [
            *(row[name] for name in fields),
            *("" if value is ABSENT else value for value in values),
            *(row["metrics"].get(metric) for metric in metrics),
        ]
        writer.writerow(map(spreadsheet_cell, cells))


def format_table(
    rows: list[Row], wanted: list[str], names: list[str] | None, all_rows: list[Row]
) -> str:
    """Id, status, trial; the columns `names`, or those that fit; then tags and the reason.

    Below are the meanings of the marks at the statuses.

    Args:
        wanted: metrics and settings to show first, when `names` is None.
        all_rows: also those that the filters left out.
    """
    trials = {row["trial"] for row in rows}
    short_names = {trial: ellipsis(printable(trial), MAX_TRIAL_WIDTH) for trial in trials}
    marks = marks_of(rows)
    columns = [
        TextColumn("run", [printable(row["run_id"]) for row in rows], ID_WIDTH),
        status_column(rows, marks),
        TextColumn("trial", [short_names[row["trial"]] for row in rows]),
    ]
    room = shutil.get_terminal_size((80, 24)).columns + 2 - width_of(columns)
    chosen = choose_columns(rows, names, wanted, room, all_rows)
    room -= width_of(chosen) + 2
    if room >= REMARK_WIDTH and names is None:
        chosen.append(TextColumn("", [format_remark(row, room) for row in rows]))
    lines = text_table([*columns, *chosen])
    return "\n".join([*lines, *format_legend(marks)])


def width_of(columns: list[TextColumn]) -> int:
    """Characters that columns take, with the two before each."""
    return sum(2 + column.width for column in columns)


def status_column(rows: list[Row], marks: dict[str, str]) -> TextColumn:
    """Each status with its mark; in its colour on a terminal."""
    texts = [row["status"] for row in rows]
    width = STATUS_WIDTH
    if marks:
        width += MARK_WIDTH
        texts = [
            f"{text:<{STATUS_WIDTH}} {marks.get(row['run_dir'], '')}"
            for row, text in zip(rows, texts, strict=True)
        ]
    colours = [COLOURS[row["status"]] for row in rows] if shows_colours(sys.stdout) else []
    return TextColumn("status", texts, width, colours=colours)


def format_remark(row: Row, width: int) -> str:
    """The tags of a run and what it is for, in at most `width` characters."""
    if not row["tags"] and not row["why"]:
        return ""
    tags = [f"#{tag}" for tag in row["tags"]]
    return ellipsis(printable(" ".join([*tags, row["why"] or ""]).strip()), width)
