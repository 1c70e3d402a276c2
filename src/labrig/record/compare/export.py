"""`lab runs export`: a table for a paper, as a file that names the runs behind each number."""

from __future__ import annotations

import argparse
import csv
import io
import math
import re
import statistics
from pathlib import Path

from ...command_parser import CommandParser
from ...errors import LabError
from ...machine.own_output import MARK, refuse_to_overwrite
from ...machine.text_formats import counted
from ...machine.text_table import comment_text, format_latex, format_markdown, spreadsheet_cell
from ...project import Project
from ..files.atomic import write_file
from ..keep.annotate import note_named
from ..list.columns import short_titles
from ..read.filters import FILTERS, none_of, parse_filter
from ..read.rows import RUN_ID, read_rows
from ..read.run import run_roots
from .experiments import Experiment, numbers_of
from .table import (
    Table,
    add_table_options,
    best_cells,
    build_table,
    note,
    paired_tests,
    why_no_test,
)

ENDINGS = (".csv", ".tex", ".md")
WRITTEN = f"{MARK} runs export"
LATEX_END = "\\endgroup\n"
CSV_TITLES = ",runs,remarks"  # its last columns
CSV_IDS = re.compile(rf",{RUN_ID.pattern}( [^,\n]*)?(,|$)", re.M)
DESCRIPTION = (
    "Writes mean ± sample standard deviation over seeds; a line for each experiment, see lab runs "
    "table. The best is bold where a paired t-test over three seeds or more tells it from all others. "
    "Comments, or columns, name the runs of each line and say what its reader must know."
)


def export_command(project: Project, args: list[str]) -> None:
    """`lab runs export`."""
    options = export_parser().parse_intermixed_args(args)
    if options.output.suffix not in ENDINGS:
        raise LabError(f"-o {options.output}: expected a name that ends in {', '.join(ENDINGS)}")
    all_rows = read_rows(run_roots(project))
    table = build_table(all_rows, options)
    if table is None:
        none = none_of(all_rows, map(parse_filter, options.where))
        print(f"{none}\n{options.output} was not written")
        return
    for remark in table.remarks:
        note(remark)
    refuse_to_overwrite(options.output, is_table)
    write_file(options.output, format_file(options.output.suffix, table))
    rows = [row for experiment in table.experiments for row in experiment.rows]
    note_named([row["run_dir"] for row in rows], options.output)
    n_runs = sum(len(experiment.rows) for experiment in table.experiments)
    print(f"{options.output}: {counted(len(table.experiments), 'line')}, {counted(n_runs, 'run')}")


def export_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="lab runs export", description=f"{DESCRIPTION} {FILTERS}")
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
    add_table_options(parser)
    return parser


def format_file(ending: str, table: Table) -> str:
    """The text of the whole file."""
    if ending == ".csv":
        return format_csv(table)
    n_words = len(table.names)
    titles = short_titles(table.names)
    header = [*(titles[name] for name in table.names), *table.header[n_words:]]
    bold = best_cells(table)
    said = [table.legend, *table.joined, *table.remarks, *paired_tests(table), *why_no_test(table)]
    said += [f"line {n}: {ids_of(each)}" for n, each in enumerate(table.experiments, start=1)]
    said = [comment_text(line) for line in said]
    if ending == ".tex":
        comments = [f"% {line}" for line in [WRITTEN, *said]]
        return "\n".join([*comments, format_latex(header, table.lines, bold, n_words), ""])
    comment = "\n".join(["<!--", *said, WRITTEN, "-->"])
    return f"{format_markdown(header, table.lines, bold)}\n\n{comment}\n"


def is_table(content: bytes) -> bool:
    """Whether a file is a table of this command, and not a text into which somebody copied one.

    A CSV file has no comments: its last columns tell.
    """
    text = content.decode("utf-8", "replace")
    is_latex = text.startswith(f"% {WRITTEN}\n") and text.endswith(LATEX_END)
    is_markdown = text.startswith("|") and text.endswith(f"{WRITTEN}\n-->\n")
    is_csv = text.partition("\n")[0].endswith(CSV_TITLES) and CSV_IDS.search(text)
    return is_latex or is_markdown or bool(is_csv)


def ids_of(experiment: Experiment) -> str:
    """The runs of a line, by which everything behind it can be found."""
    return " ".join(row["run_id"] for row in experiment.rows)


def format_csv(table: Table) -> str:
    """A line for each experiment, for programs: mean, deviation and number apart, not rounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    of_metrics = [f"{metric} {what}" for metric in table.metrics for what in ("mean", "sd", "n")]
    writer.writerow(map(spreadsheet_cell, [*table.names, *of_metrics, "runs", "remarks"]))
    remarks = "; ".join([*table.joined, *table.remarks])
    for line, experiment in zip(table.lines, table.experiments, strict=True):
        figures: list[float | str] = []
        for metric in table.metrics:
            numbers = numbers_of(experiment, metric)
            is_finite = math.isfinite(sum(numbers))
            mean = (statistics.fmean(numbers) if is_finite else sum(numbers)) if numbers else ""
            deviation = statistics.stdev(numbers) if len(numbers) > 1 and is_finite else ""
            figures += [mean, deviation, len(numbers)]
        cells = [*line[: len(table.names)], *figures, ids_of(experiment), remarks]
        writer.writerow(map(spreadsheet_cell, cells))
    return file.getvalue()
