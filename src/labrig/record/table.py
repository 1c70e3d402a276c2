"""`lab runs table`: mean and standard deviation over seeds, for a paper."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..machine.counted import counted
from ..machine.terminal import printable
from ..project import Project
from .columns import FAVOURITES
from .filters import FILTERS, filter_rows, is_number, parse_filter, require_keys, sortable
from .index import read_rows
from .ranking import require_metric
from .roots import run_roots
from .schema import Row
from .settings import (
    differing_settings,
    distinct_objects,
    format_setting,
    result_identity,
    value_of,
)
from .table_formats import format_latex, format_markdown, format_text
from .trial_code import codes_of_rows, differ_around_trials

CODE = "trial code"  # the column that tells apart the codes of a trial; no setting has this name
DESCRIPTION = (
    "Mean ± sample standard deviation over the runs that differ in their seed only, for each value "
    "of the settings in --by. A default counts: typed or not, it is the same group. The last value "
    "of each finished run is taken; of two runs with the same settings, seed and code of the "
    "trial, the newer one. Where the code of a trial changed, each code has lines of its own."
)


@dataclass(frozen=True)
class Group:
    """The runs, newest first, that share the values of the settings in --by.

    Where trials ran with several codes, they share that too, and its name is the last value.
    """

    values: tuple
    rows: list[Row]


def table_command(project: Project, args: list[str]) -> None:
    """`lab runs table`.

    Raises:
        LabError: a filter, setting or metric is not understood, or no run has it.
    """
    options = table_parser().parse_intermixed_args(args)
    names = options.by.split(",")
    all_rows = read_rows(run_roots(project))
    require_keys(all_rows, names)
    rows = choose_rows(all_rows, options.where)
    if not rows:
        print(f"none of {counted(len(all_rows), 'run')}")
        return
    metrics = choose_metrics(rows, options.metric)
    groups = group_rows(project.root, rows, names)
    names = names_with_code(groups, names)
    warn_of_other_differences(project.root, groups, names)
    header = [*names, *metrics, "n"]
    lines = [
        [
            *(format_setting(name, value) for name, value in zip(names, group.values, strict=True)),
            *(format_cell(group, metric) for metric in metrics),
            str(len(group.rows)),
        ]
        for group in groups
    ]
    if options.latex:
        print(format_latex(header, lines))
    elif options.md:
        print(format_markdown(header, lines))
    else:
        print(format_text(header, lines))


def table_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab runs table", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help="which runs, for example: trial=wide since=7d"
    )
    parser.add_argument(
        "--by",
        required=True,
        metavar="SETTINGS",
        help="a row for each value of these, separated by commas: optimizer.lr,model.width",
    )
    parser.add_argument(
        "--metric",
        metavar="NAMES",
        help="a column for each, separated by commas (default: all of test/, else of val/)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--latex", action="store_true", help="a tabular")
    output.add_argument("--md", action="store_true", help="Markdown")
    return parser


def choose_rows(all_rows: list[Row], where: list[str]) -> list[Row]:
    """The runs that pass the filters; without a filter of the status only finished ones."""
    filters = [parse_filter(text) for text in where]
    rows = filter_rows(all_rows, filters)
    if any(wanted.key == "status" for wanted in filters):
        return rows
    return only_finished(rows)


def choose_metrics(rows: list[Row], names: str | None) -> list[str]:
    """The metrics that were named, separated by commas, else the default ones.

    Raises:
        LabError: no run has one of them.
    """
    metrics = names.split(",") if names else default_metrics(rows)
    for metric in metrics:
        require_metric(rows, metric)
    return metrics


def only_finished(rows: list[Row]) -> list[Row]:
    """The finished runs; says how many are left out."""
    finished = [row for row in rows if row["status"] == "finished"]
    if len(finished) < len(rows):
        n_left_out = len(rows) - len(finished)
        unfinished = counted(n_left_out, "unfinished run")
        note(f"left out: {unfinished}; status=... takes others")
    return finished


def default_metrics(rows: list[Row]) -> list[str]:
    """The metrics of the test split; of validation where there are none, else all.

    Raises:
        LabError: no run has a metric.
    """
    existing = dict.fromkeys(name for row in rows for name in row["metrics"])
    in_order = [name for name in FAVOURITES if name in existing]
    in_order += [name for name in existing if name not in FAVOURITES]
    for split in ("test/", "val/", ""):
        metrics = [name for name in in_order if name.startswith(split)]
        if metrics:
            return metrics
    raise LabError("these runs have no metric yet. Runs: lab runs list")


def group_rows(root: Path, rows: list[Row], names: list[str]) -> list[Group]:
    """The groups, sorted by their settings; of several codes the newest first.

    Args:
        root: of the project.
        rows: newest first.
        names: of the settings in --by.
    """
    codes = codes_of_rows(root, rows)
    groups: dict[str, Group] = {}
    for row in without_repetitions(rows, codes):
        values = tuple(group_value(row, name) for name in names)
        if codes:
            values += (codes.get(row["run_dir"], ""),)
        groups.setdefault(repr(values), Group(values, [])).rows.append(row)

    def settings_of(group: Group) -> tuple:
        return tuple(sortable(value) for value in group.values[: len(names)])

    return sorted(groups.values(), key=settings_of)


def without_repetitions(rows: list[Row], codes: dict[str, str]) -> list[Row]:
    """Of runs with the same settings, seed and code the newest; says how many are left out."""
    several = [row["settings"] for row in rows]
    identities = {id(each): result_identity(each) for each in distinct_objects(several)}
    newest: dict[tuple, Row] = {}
    for row in rows:
        identity = (row["trial"], identities[id(row["settings"])], codes.get(row["run_dir"]))
        if not row["settings"]:  # such a record repeats none
            identity = (row["run_dir"],)
        newest.setdefault(identity, row)
    n_left_out = len(rows) - len(newest)
    if n_left_out:
        note(f"left out: {counted(n_left_out, 'older run')} with the same settings and seed")
    return list(newest.values())


def names_with_code(groups: list[Group], names: list[str]) -> list[str]:
    """What the values of the groups are called; says it when trials ran with several codes."""
    has_codes = any(len(group.values) > len(names) for group in groups)
    if not has_codes:
        return names
    note(f"the code of a trial changed between these runs: see the column {CODE!r}")
    return [*names, CODE]


def group_value(row: Row, name: str) -> object:
    """The value of a setting; every record says of which trial it is."""
    return row["trial"] if name == "trial" else value_of(row["settings"], name)


def warn_of_other_differences(root: Path, groups: list[Group], names: list[str]) -> None:
    """Says in what besides the seed the runs of a group differ: they are no repetitions."""
    others: dict[str, None] = {}
    for group in groups:
        for key in differing_settings([row["settings"] for row in group.rows]):
            if key != "seed" and key not in names:
                others[key] = None
    if others:
        listed = ", ".join(others)
        note(f"runs in one line also differ in {listed}; name it in --by, or filter")
    if differ_around_trials(root, [group.rows for group in groups]):
        note("runs in one line also differ in the code outside of their trial; see: lab runs diff")


def note(text: str) -> None:
    print(f"lab: {printable(text)}", file=sys.stderr)


def format_cell(group: Group, metric: str) -> str:
    """Mean ± standard deviation of a metric; the number of runs, when not all have it."""
    values = [row["metrics"].get(metric) for row in group.rows]
    numbers = [float(value) for value in values if is_number(value)]
    if not numbers:
        return "-"
    text = format_mean(numbers)
    if len(numbers) < len(values):
        text += f" ({counted(len(numbers), 'run')})"
    return text


def format_mean(numbers: list[float]) -> str:
    """0.9512 ± 0.0031: mean and sample deviation. One number has no deviation."""
    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return f"{mean:.4g}"
    return format_deviation(mean, statistics.stdev(numbers))


def format_deviation(mean: float, deviation: float) -> str:
    """The deviation with two significant digits, the mean with as many decimals."""
    if deviation == 0:
        return f"{mean:.4g} ± 0"
    n_decimals = max(0, 1 - math.floor(math.log10(deviation)))
    return f"{mean:.{n_decimals}f} ± {deviation:.{n_decimals}f}"
