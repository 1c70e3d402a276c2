# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`: the table of runs."""

import argparse
import csv
import json
import shutil
import sys
from typing import Any

from ..project import Project
from .filters import FIELDS, FILTERS, matches, parse_filter, sort_runs
from .index import check_metric, rows
from .status import JobStateOf

PUBLIC = ("run_id", "trial", "status", "created", "run_dir", "metrics")
FAVOURITES = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
COLOURS = {"finished": 32, "failed": 31, "lost": 31, "interrupted": 33, "running": 36, "queued": 36}
LONGEST = 10  # lines of news per kind


def list_command(project: Project, args: list[str], scheduler: JobStateOf | None = None) -> None:
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
    wanted = [parse_filter(text) for text in options.where]
    known = rows(project.paths["runs"], scheduler)
    asked = [key for key, _, _ in wanted if key not in FIELDS]
    for name in asked:
        check_metric(known, name)
    found = sort_runs(
        [row for row in known if all(matches(row, *each) for each in wanted)], options.sort
    )
    if options.json:
        json.dump([{key: row[key] for key in PUBLIC} for row in found], sys.stdout)
        print()
    elif options.csv:
        write_csv(found)
    elif not found:
        print(
            f"none of {len(known)} runs"
            if known
            else "no runs yet. Make one with: lab train trial=baseline"
        )
    else:
        asked.append(options.sort or "")
        sys.stdout.write(
            format_table(
                found, asked, shutil.get_terminal_size((80, 24)).columns, sys.stdout.isatty()
            )
        )


def write_csv(found: list[dict]) -> None:
    about = [key for key in PUBLIC if key != "metrics"] + ["seed", "who", "seconds"]
    names = sorted({name for row in found for name in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*about, *names])
    for row in found:
        writer.writerow([row[key] for key in about] + [row["metrics"].get(name) for name in names])


def format_table(found: list[dict], asked: list[str], width: int, colour: bool) -> str:
    """Id, status, trial, then as many metrics as fit (those asked for first), then tags or the reason for the run."""
    names = {name: None for row in found for name in row["metrics"]}
    names = [name for name in dict.fromkeys([*asked, *FAVOURITES, *names]) if name in names]
    trial_width = min(18, max([5, *(len(row["trial"]) for row in found)]))
    used = 22 + 2 + 11 + 2 + trial_width
    columns = []
    for name in names:
        if used + 2 + max(8, len(name)) <= width:
            columns.append((name, max(8, len(name))))
            used += 2 + max(8, len(name))
    rest = width - used - 2
    head = f"{'run':<22}  {'status':<11}  {'trial':<{trial_width}}" + "".join(
        f"  {name:>{w}}" for name, w in columns
    )
    lines = [head]
    for row in found:
        status = f"{row['status']:<11}"
        if colour:
            status = f"\033[{COLOURS[row['status']]}m{status}\033[0m"
        cells = "".join(f"  {format_value(row['metrics'].get(name)):>{w}}" for name, w in columns)
        about = (
            " ".join([*(f"#{tag}" for tag in row["tags"]), row["why"] or ""])
            .strip()
            .replace("\n", " ")
        )
        lines.append(
            f"{row['run_id']:<22}  {status}  {ellipsis(row['trial'], trial_width):<{trial_width}}{cells}"
        )
        if rest >= 6 and about:
            lines[-1] += "  " + ellipsis(about, rest)
    return "\n".join(lines) + "\n"


def ellipsis(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def format_value(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
