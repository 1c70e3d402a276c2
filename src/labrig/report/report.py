"""`lab report`: writes the page, and writes it again while a run has not ended."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..cluster.watch.job_states import job_state_of
from ..command_parser import CommandParser
from ..errors import LabError
from ..machine.own_output import refuse_to_overwrite
from ..machine.text_formats import counted
from ..project import Project
from ..record.files.atomic import write_file
from ..record.keep.annotate import note_named
from ..record.read.filters import FILTERS, Filter, parse_filter
from ..record.read.status import UNENDED
from .figures import CurveReader
from .gather import RunsSource, gather_report, list_sources
from .html_page import format_page, is_page, no_runs

WATCH_S = 30  # between two pages
NAME = "report.html"  # in the directory of all runs


def report_command(project: Project, args: list[str]) -> None:
    """`lab report`."""
    options = report_parser().parse_intermixed_args(args)
    filters = [parse_filter(text) for text in options.where]
    sources = list_sources(project, options.runs)
    file = (options.output or project.paths.runs / NAME).absolute()
    is_place = options.output is None or file.parent.is_dir()
    if file.is_dir() or not is_place:
        raise LabError(f"-o {options.output}: expected a file in a directory that exists")
    if options.watch is not None and options.watch <= 0:
        raise LabError(f"--watch {options.watch:g}: expected seconds, more than 0")
    refuse_to_overwrite(file, is_page)
    reader = CurveReader()
    while True:
        n_unended = write_report(project, sources, filters, file, reader, options.watch)
        if not options.watch or not n_unended:
            break
        time.sleep(options.watch)
    if options.watch:
        print("no run is queued or running any more")


def report_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="lab report",
        description="Writes one page of trials, runs, curves and cost. It needs no network and no "
        f"other file, so it can be mailed. {FILTERS}",
    )
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help="which runs, for example: trial=wide since=30d"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"the page (default: runs/{NAME})"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="add the runs of other people or projects: their project, or its runs directory",
    )
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=WATCH_S,
        metavar="SECONDS",
        help=f"write it again every {WATCH_S} s, until no run is queued or running",
    )
    return parser


def write_report(
    project: Project,
    sources: list[RunsSource],
    filters: list[Filter],
    file: Path,
    reader: CurveReader,
    watch_s: float | None,
) -> int:
    """Writes the page once, and says where.

    Returns: how many of its runs have not ended.
    """
    report = gather_report(project, sources, filters, file.parent, reader, job_state_of())
    if not report.statuses:
        print(no_runs(report.table["n_all"]))
        return 0
    n_unended = sum(status in UNENDED for status in report.statuses)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, format_page(report, watch_s if n_unended else None))
    if watch_s is None:
        note_named(report.finished, file)
    size_mb = file.stat().st_size / 1e6
    n_runs = len(report.statuses)
    print(f"{file} ({counted(n_runs, 'run')}, {size_mb:.1f} MB)", flush=True)
    return n_unended
