"""`lab trials result`: writes the numbers table of a trial's README from its runs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from ..command_parser import CommandParser
from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..machine.text_formats import HOUR_S, counted
from ..machine.text_table import format_markdown
from ..project import Project
from ..record.compare.code_files import short_commit
from ..record.compare.experiments import (
    CODE,
    Experiment,
    group_experiments,
    remarks_on,
    remarks_on_code,
)
from ..record.compare.table import (
    Table,
    best_cells,
    format_cell,
    lines_of,
    names_of_columns,
)
from ..record.files.atomic import write_file
from ..record.files.schema import Row
from ..record.list.columns import short_titles
from ..record.list.cost import sum_of
from ..record.read.ranking import main_first, split_of
from ..record.read.rows import read_rows
from ..record.read.run import run_roots
from ..record.read.status import COUNT_FIRST
from .files import has_code_of_today, trial_directory, with_numbers
from .numbers import Metric, compared_rows, measured_rows, metric_of, rows_by_trial

MAX_METRICS = 4  # columns
MAX_LINES = 12
MAX_COMMITS = 2  # of the runs in one line
OTHER_CODE = " *"  # at the commit of runs whose trial code was another


@dataclass(frozen=True)
class Line:
    """An experiment, and whether the code of its trial is that of today."""

    experiment: Experiment
    has_code_of_today: bool

    @property
    def rows(self) -> list[Row]:
        return self.experiment.rows

    def mean(self, metric: Metric) -> float:
        values = [metric.value_of(row) for row in self.rows]
        return sum(values) / len(values)


def result_command(project: Project, args: list[str]) -> int:
    """`lab trials result`."""
    parser = CommandParser(
        prog="lab trials result",
        description="Writes the numbers table of a trial's README from its finished runs: mean ± "
        "deviation over seeds, number of seeds, commit, GPU-hours; a line for each combination of "
        "settings.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--metric",
        help="the first column: val/acc, val/fid:min (default: checkpoint.monitor of the newest run)",
    )
    options = parser.parse_args(args)
    names = trial_names(project)
    if options.name not in names:
        raise LabError(
            f"no trial {options.name!r}{nearest(options.name, names)}. Trials: {', '.join(names)}"
        )
    table = result_table(project, options.name, options.metric)
    path = trial_directory(project, options.name) / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else f"# {options.name}\n"
    write_file(path, with_numbers(text, table, path))
    print(table)
    print(f"\nwritten to {os.path.relpath(path)}")
    return 0


def result_table(project: Project, name: str, metric_name: str | None = None) -> str:
    """The table in Markdown, the best line first, with a footnote where other code ran."""
    rows = rows_by_trial(read_rows(run_roots(project))).get(name, [])
    metric = metric_of(rows, metric_name)
    measured = measured_rows(rows, metric)
    if not measured:
        raise LabError(
            f"no finished run of trial {name!r} has {metric.name!r}. {existing_metrics(rows)}"
        )
    metric.require_mode()
    if len(measured) < len(rows):
        n_ended = sum(row["status"] in COUNT_FIRST for row in rows)
        left_out = {"not finished": len(rows) - n_ended}
        left_out[f"without {metric.name}"] = n_ended - len(measured)
        reasons = ", ".join(f"{n} {reason}" for reason, n in left_out.items() if n)
        print(f"lab: of {counted(len(rows), 'run')} left out: {reasons}", file=sys.stderr)
    compared = compared_rows(rows, metric)
    experiments = group_experiments(compared.rows)
    lines = [
        Line(experiment, has_code_of_today(project, name, experiment.rows[0]))
        for experiment in experiments
    ]
    lines.sort(key=lambda line: line.mean(metric), reverse=metric.mode == "max")
    remarks = [*remarks_on_code(experiments), *remarks_on(experiments)]
    parts = [format_lines(lines, metric, name), *remarks]
    if compared.remark:
        parts.append(f"Left aside: {compared.remark}.")
    return "\n\n".join(parts)


def existing_metrics(rows: list[Row]) -> str:
    """What to type in its place."""
    finished = [row for row in rows if row["status"] in COUNT_FIRST]
    names = sorted({name for row in finished for name in row["metrics"]})
    if not names:
        return "Its runs: lab runs list"
    return f"Choose another with --metric: {', '.join(names)}"


def format_lines(lines: list[Line], metric: Metric, name: str) -> str:
    """The table of these lines, of which the first MAX_LINES are shown."""
    shown = lines[:MAX_LINES]
    metrics = [metric.name, *other_metrics(lines, metric)]
    settings = settings_texts([line.experiment for line in shown])
    header = [*(["settings"] if settings else []), *metrics, "n", "commit", "GPU-hours"]
    cells = []
    for n, line in enumerate(shown):
        cells.append(
            [
                *([settings[n]] if settings else []),
                *(format_cell(line.experiment, each) for each in metrics),
                str(len(line.rows)),
                format_commits(line),
                f"{sum_of(line.rows, 'gpu_seconds') / HOUR_S:.2f}",
            ]
        )
    names = ["settings"] if settings else []
    experiments = [line.experiment for line in lines]
    bold = best_cells(Table(experiments, names, metrics, (), False, (), []))
    parts = [format_markdown(header, cells, [cell for cell in bold if cell[0] < len(shown)])]
    if len(lines) > len(shown):
        parts.append(
            f"{len(lines) - len(shown)} more combinations of settings: `lab runs list trial={name}`"
        )
    if not all(line.has_code_of_today for line in shown):
        parts.append(r"\* The code, or the settings files of the trial, were others than today's.")
    return "\n\n".join(parts)


def other_metrics(lines: list[Line], metric: Metric) -> list[str]:
    """Further metrics of validation and test, the usual ones first."""
    names = {name for line in lines for row in line.rows for name in row["metrics"]}
    evaluated = [name for name in main_first(sorted(names)) if split_of(name) in ("val", "test")]
    return [name for name in evaluated if name != metric.name][: MAX_METRICS - 1]


def settings_texts(experiments: list[Experiment]) -> list[str]:
    """What tells the experiments apart, as one would type the settings; [] for one."""
    names = names_of_columns(experiments, by=[], over=())
    has_variants = len({experiment.rows[0]["trial"] for experiment in experiments}) > 1
    names = [name for name in names if name != CODE and (name != "trial" or has_variants)]
    if not names:
        return []
    titles = short_titles(names)
    return [
        " ".join(f"{titles[name]}={text}" for name, text in zip(names, texts, strict=True))
        for texts in lines_of(experiments, names)
    ]


def format_commits(line: Line) -> str:
    """The commits of the frozen code, newest first."""
    commits = list(dict.fromkeys(short_commit(row) for row in line.rows))
    shown = commits[:MAX_COMMITS]
    if len(commits) > MAX_COMMITS:
        shown.append("…")
    return " ".join(shown) + ("" if line.has_code_of_today else OTHER_CODE)
