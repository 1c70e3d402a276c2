# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`: filter, sort, and print as a table, JSON or CSV."""

import argparse
import csv
import json
import operator
import re
import shutil
import sys
from fnmatch import fnmatch
from typing import Any

from ..errors import LabError, nearest
from ..project import Project
from .attempt import STATES, Scheduler
from .rows import lower_is_better, rows

PUBLIC = ("run_id", "trial", "status", "created", "run_dir", "metrics")
FAVOURITES = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
COLOURS = {"finished": 32, "failed": 31, "lost": 31, "interrupted": 33, "running": 36, "queued": 36}
OPERATORS = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip
EXPRESSION = re.compile(r"([^<>=!]+)(<=|>=|!=|<|>|=)(.*)")
FIELDS = ("trial", "status", "tag", "who", "since", "before")
FILTERS = """Filters, all of which must hold: trial=wide (or a pattern), status=failed,lost, tag=paper, who=ann,
since=2026-11-01, before=2026-12-01, and metrics such as 'val/loss<0.3' (quoted, because of the shell)."""


def list_command(project: Project, args: list[str], scheduler: Scheduler | None = None) -> None:
    parser = argparse.ArgumentParser(prog="lab runs list", description="Lists runs, newest first. " + FILTERS)
    parser.add_argument("where", nargs="*", metavar="FILTER", help="for example: status=finished 'val/acc>0.9'")
    parser.add_argument("--sort", metavar="KEY", help="a metric (best first), trial, status, seconds or created")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="an array of " + ", ".join(PUBLIC))
    output.add_argument("--csv", action="store_true", help="a line per run, a column per metric")
    options = parser.parse_args(args)
    wanted = [parsed(text) for text in options.where]
    known = rows(project.paths["runs"], scheduler)
    found = [row for row in known if all(holds(row, *expression) for expression in wanted)]
    check_metrics(known, [key for key, _, _ in wanted if key not in FIELDS])
    found = ordered(found, options.sort)
    if options.json:
        json.dump([{key: row[key] for key in PUBLIC} for row in found], sys.stdout)
        print()
    elif options.csv:
        write_csv(found)
    elif not found:
        print(f"none of {len(known)} runs" if known else "no runs yet. Make one with: lab train trial=baseline")
    else:
        asked = [key for key, _, _ in wanted if key not in FIELDS] + [options.sort or ""]
        sys.stdout.write(table(found, asked, shutil.get_terminal_size((80, 24)).columns, sys.stdout.isatty()))


def parsed(text: str) -> tuple[str, str, str]:
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise LabError(f"{text!r} is no filter. Filters look like status=failed or 'val/loss<0.3'.")
    key, sign, value = (part.strip() for part in match.groups())
    if key not in FIELDS:
        try:
            float(value)
        except ValueError as error:
            known = ", ".join(FIELDS)
            raise LabError(
                f"{text!r}: a metric is compared with a number, and {key!r} is none of {known}" + nearest(key, FIELDS)
            ) from error
    elif sign != "=":
        raise LabError(f"{text!r}: {key} is compared with =, for example {key}={value}")
    if key == "status":
        for state in value.split(","):
            if state not in STATES:
                raise LabError(f"no status {state!r}{nearest(state, STATES)}. There are: {', '.join(STATES)}")
    return key, sign, value


def holds(row: dict, key: str, sign: str, value: str) -> bool:
    """Whether one filter holds for a row; a metric that the run lacks never does."""
    match key:
        case "trial":
            return fnmatch(row["trial"], value) or row["trial"].partition("/")[0] == value
        case "status":
            return row["status"] in value.split(",")
        case "tag":
            return value in row["tags"]
        case "who":
            return row["who"] == value
        case "since":
            return (row["created"] or "") >= value
        case "before":
            return (row["created"] or "") < value
    measured = row["metrics"].get(key)
    return isinstance(measured, int | float) and OPERATORS[sign](measured, float(value))


def check_metrics(known: list[dict], asked: list[str]) -> None:
    """A metric that no run has is a mistake, not an empty list."""
    names = {name for row in known for name in row["metrics"]} if asked else set()
    for name in asked:
        if known and name not in names:
            there = ", ".join(sorted(names)) or "none"
            raise LabError(f"no run has the metric {name!r}{nearest(name, names)}. Metrics: {there}")


def ordered(found: list[dict], key: str | None) -> list[dict]:
    """Newest first, or by `key`: metrics best first, runs without the value last."""
    if key in (None, "created"):
        return found
    if key in ("trial", "status"):
        return sorted(found, key=lambda row: row[key])
    if key == "seconds":
        return sorted(found, key=lambda row: -(row["seconds"] or 0))
    check_metrics(found, [key])
    sign = 1 if lower_is_better(key) else -1

    def value(row: dict) -> tuple[bool, float]:
        measured = row["metrics"].get(key)
        there = isinstance(measured, int | float)
        return (not there, sign * measured if there else 0)

    return sorted(found, key=value)


def write_csv(found: list[dict]) -> None:
    about = [key for key in PUBLIC if key != "metrics"] + ["seed", "who", "seconds"]
    names = sorted({name for row in found for name in row["metrics"]})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*about, *names])
    for row in found:
        writer.writerow([row[key] for key in about] + [row["metrics"].get(name) for name in names])


def table(found: list[dict], asked: list[str], width: int, colour: bool) -> str:
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
    head = f"{'run':<22}  {'status':<11}  {'trial':<{trial_width}}" + "".join(f"  {name:>{w}}" for name, w in columns)
    lines = [head]
    for row in found:
        status = f"{row['status']:<11}"
        if colour:
            status = f"\033[{COLOURS[row['status']]}m{status}\033[0m"
        cells = "".join(f"  {shown(row['metrics'].get(name)):>{w}}" for name, w in columns)
        about = " ".join([*(f"#{tag}" for tag in row["tags"]), row["why"] or ""]).strip().replace("\n", " ")
        lines.append(f"{row['run_id']:<22}  {status}  {cut(row['trial'], trial_width):<{trial_width}}{cells}")
        if rest >= 6 and about:
            lines[-1] += "  " + cut(about, rest)
    return "\n".join(lines) + "\n"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
