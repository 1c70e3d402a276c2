"""`lab runs export`: a table for a paper, as a file that names the runs behind each number."""

from __future__ import annotations

import argparse
import csv
import io
import statistics
from pathlib import Path

from ..errors import LabError
from ..machine.counted import counted
from ..project import Project
from .atomic import write_file
from .columns import short_titles
from .filters import FILTERS, is_number, require_keys
from .index import read_rows
from .ranking import lower_is_better
from .roots import run_roots
from .schema import Row
from .settings import differing_settings, format_setting
from .table import (
    Group,
    choose_metrics,
    choose_rows,
    format_cell,
    group_rows,
    names_with_code,
    warn_of_other_differences,
)
from .table_formats import Cell, format_latex, format_markdown

ENDINGS = (".csv", ".tex", ".md")
DESCRIPTION = (
    "Writes mean ± sample standard deviation over seeds, the best of each metric in bold. Runs that "
    "differ in nothing but their seed are one line, if their trial had the same code. Comments, or "
    "a column, name the runs of each."
)


def export_command(project: Project, args: list[str]) -> None:
    """`lab runs export`.

    Raises:
        LabError: a filter, setting, metric or the kind of file is not understood, or no run has it.
    """
    options = export_parser().parse_intermixed_args(args)
    if options.output.suffix not in ENDINGS:
        raise LabError(f"-o {options.output}: expected a name that ends in {', '.join(ENDINGS)}")
    all_rows = read_rows(run_roots(project))
    rows = choose_rows(all_rows, options.where)
    if not rows:
        print(f"none of {counted(len(all_rows), 'run')}, so {options.output} was not written")
        return
    metrics = choose_metrics(rows, options.metric)
    names = options.by.split(",") if options.by else names_of_groups(rows)
    require_keys(rows, [name for name in names if name != "trial"])
    groups = group_rows(project.root, rows, names)
    names = names_with_code(groups, names)
    warn_of_other_differences(project.root, groups, names)
    write_file(options.output, format_file(options.output.suffix, groups, names, metrics))
    n_runs = sum(len(group.rows) for group in groups)
    print(f"{options.output}: {counted(len(groups), 'line')}, {counted(n_runs, 'run')}")


def export_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab runs export", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help="which runs, for example: tag=paper trial=wide"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="results.csv, results.tex or results.md",
    )
    parser.add_argument(
        "--by",
        metavar="SETTINGS",
        help="a line for each value of these, separated by commas (default: trial, and what differs)",
    )
    parser.add_argument(
        "--metric",
        metavar="NAMES",
        help="a column for each, separated by commas (default: all of test/, else of val/)",
    )
    return parser


def names_of_groups(rows: list[Row]) -> list[str]:
    """The trial, and every setting other than the seed that differs between runs."""
    differing = differing_settings([row["settings"] for row in rows])
    others = [key for key in differing if key != "trial" and key.rpartition(".")[2] != "seed"]
    return ["trial", *others]


def format_file(ending: str, groups: list[Group], names: list[str], metrics: list[str]) -> str:
    """The text of the whole file."""
    if ending == ".csv":
        return format_csv(groups, names, metrics)
    titles = short_titles(names)
    header = [*(titles[name] for name in names), *metrics, "n"]
    lines = [
        [
            *values_of(group, names),
            *(format_cell(group, metric) for metric in metrics),
            str(len(group.rows)),
        ]
        for group in groups
    ]
    bold = best_cells(groups, metrics, len(names))
    sources = [f"line {n}: {ids_of(group)}" for n, group in enumerate(groups, start=1)]
    if ending == ".tex":
        comments = [f"% {source}" for source in sources]
        return "\n".join([*comments, format_latex(header, lines, bold), ""])
    comment = "\n".join(["<!--", *sources, "-->"])
    return f"{format_markdown(header, lines, bold)}\n\n{comment}\n"


def values_of(group: Group, names: list[str]) -> list[str]:
    return [format_setting(name, value) for name, value in zip(names, group.values, strict=True)]


def ids_of(group: Group) -> str:
    """The runs of a line, by which everything behind it can be found."""
    return " ".join(row["run_id"] for row in group.rows)


def numbers_of(group: Group, metric: str) -> list[float]:
    values = [row["metrics"].get(metric) for row in group.rows]
    return [float(value) for value in values if is_number(value)]


def best_cells(groups: list[Group], metrics: list[str], n_names: int) -> list[Cell]:
    """The cells with the best mean of each metric; none where there is only one."""
    cells = []
    for place, metric in enumerate(metrics):
        numbers = {line: numbers_of(group, metric) for line, group in enumerate(groups)}
        means = {line: statistics.fmean(values) for line, values in numbers.items() if values}
        if len(means) > 1:
            best = min(means.values()) if lower_is_better(metric) else max(means.values())
            cells += [(line, n_names + place) for line, mean in means.items() if mean == best]
    return cells


def format_csv(groups: list[Group], names: list[str], metrics: list[str]) -> str:
    """A line for each group, for programs: mean, deviation and number apart, not rounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    of_metrics = [f"{metric} {what}" for metric in metrics for what in ("mean", "sd", "n")]
    writer.writerow([*names, *of_metrics, "runs"])
    for group in groups:
        figures: list[float | str] = []
        for metric in metrics:
            numbers = numbers_of(group, metric)
            mean = statistics.fmean(numbers) if numbers else ""
            deviation = statistics.stdev(numbers) if len(numbers) > 1 else ""
            figures += [mean, deviation, len(numbers)]
        writer.writerow([*values_of(group, names), *figures, ids_of(group)])
    return file.getvalue()
