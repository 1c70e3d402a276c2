"""`lab trials result`: writes the numbers table of a trial's README from its runs."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass

from ..config.trial_names import trial_names
from ..errors import LabError, nearest
from ..machine.counted import counted
from ..project import Project
from ..record.atomic import write_file
from ..record.columns import FAVOURITES, short_titles
from ..record.cost import HOUR_S, sum_of
from ..record.filters import is_number
from ..record.index import read_rows
from ..record.outcome import COUNT_FIRST
from ..record.repetitions import RepetitionKeys
from ..record.roots import run_roots
from ..record.schema import Row
from ..record.settings import differing_settings, format_setting, value_of
from ..record.table import format_mean
from ..record.table_formats import format_markdown
from ..record.trial_code import code_id, code_of_trees, differ_around_trials, short_commit
from .code import tree_today, trial_directory
from .numbers import Metric, measured_rows, metric_of, newest_of_each_seed, rows_by_trial
from .readme import with_numbers

MAX_METRICS = 4  # columns
MAX_LINES = 12
MAX_COMMITS = 2  # of the runs in one line
OTHER_CODE = r" \*"  # at the commit of runs whose trial code was another
OTHER_PACKAGE = (
    "Runs of one line differ in the code outside of their trial: `lab runs diff` shows it."
)


@dataclass(frozen=True)
class Repetitions:
    """Runs of one code that differ in their seed only: the newest of each seed, newest first."""

    rows: list[Row]
    has_code_of_today: bool

    def mean(self, metric: Metric) -> float:
        values = [metric.value_of(row) for row in self.rows]
        return sum(values) / len(values)


def result_command(project: Project, args: list[str]) -> int:
    """`lab trials result`.

    Raises:
        LabError: there is no such trial, no finished run of it, or one mark in its README.
    """
    parser = argparse.ArgumentParser(
        prog="lab trials result",
        description="Writes the numbers table of a trial's README from its finished runs: mean ± "
        "deviation over seeds, number of seeds, commit, GPU-hours; a line for each combination of "
        "settings.",
    )
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--metric", help="the first column (default: checkpoint.monitor of the newest run)"
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
    """The table in Markdown, the best line first, with a footnote where other code ran.

    Raises:
        LabError: no finished run of the trial has the metric.
    """
    rows = rows_by_trial(read_rows(run_roots(project))).get(name, [])
    metric = metric_of(rows, metric_name)
    measured = measured_rows(rows, metric)
    if not measured:
        raise LabError(
            f"no finished run of trial {name!r} has {metric.name!r}. {existing_metrics(rows)}"
        )
    if len(measured) < len(rows):
        n_left_out = len(rows) - len(measured)
        print(
            f"lab: {n_left_out} of {counted(len(rows), 'run')} left out: not finished",
            file=sys.stderr,
        )
    directories = {row["run_dir"] for row in measured}
    in_order = [row for row in rows if row["run_dir"] in directories]
    groups = group_repetitions(project, name, in_order)
    groups.sort(key=lambda group: group.mean(metric), reverse=not metric.lower_is_better)
    table = format_groups(groups, metric, name)
    if differ_around_trials(project.root, [group.rows for group in groups[:MAX_LINES]]):
        table += f"\n\n{OTHER_PACKAGE}"
    return table


def existing_metrics(rows: list[Row]) -> str:
    """What to type in its place."""
    finished = [row for row in rows if row["status"] in COUNT_FIRST]
    names = sorted({name for row in finished for name in row["metrics"]})
    if not names:
        return "Its runs: lab runs list"
    return f"Choose another with --metric: {', '.join(names)}"


def group_repetitions(project: Project, name: str, rows: list[Row]) -> list[Repetitions]:
    """The runs by settings and code of the trial. `rows` come newest first."""
    today = tree_today(project, name)
    trees = {row["trial_tree"] for row in rows if row["trial_tree"]}
    code = code_of_trees(project.root, trees | {today}) if today else {}
    keys = RepetitionKeys()
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        # A record without settings repeats none
        key = keys.key_of(row["settings"]) if row["settings"] else row["run_dir"]
        groups.setdefault((key, code_id(row, code)), []).append(row)
    code_today = code.get(today, today) if today else None
    return [
        Repetitions(newest_of_each_seed(group), has_code_of_today=code_then == code_today)
        for (_, code_then), group in groups.items()
    ]


def format_groups(groups: list[Repetitions], metric: Metric, name: str) -> str:
    """The table of these groups, of which the first MAX_LINES are shown."""
    shown = groups[:MAX_LINES]
    metrics = [metric.name, *other_metrics(groups, metric)]
    settings = settings_texts(shown)
    header = [*(["settings"] if settings else []), *metrics, "n", "commit", "GPU-hours"]
    lines = []
    for n, group in enumerate(shown):
        lines.append(
            [
                *([settings[n]] if settings else []),
                *(format_metric(group, each) for each in metrics),
                str(len(group.rows)),
                format_commits(group),
                f"{sum_of(group.rows, 'gpu_seconds') / HOUR_S:.2f}",
            ]
        )
    parts = [format_markdown(header, lines)]
    if len(groups) > len(shown):
        parts.append(
            f"{len(groups) - len(shown)} more combinations of settings: `lab runs list trial={name}`"
        )
    if not all(group.has_code_of_today for group in shown):
        parts.append(r"\* The code or the settings files of the trial were others than today's.")
    return "\n\n".join(parts)


def other_metrics(groups: list[Repetitions], metric: Metric) -> list[str]:
    """Further metrics of validation and test, the usual ones first."""
    names = {name for group in groups for row in group.rows for name in row["metrics"]}
    usual = [name for name in FAVOURITES if name in names]
    others = [*usual, *sorted(names - set(usual))]
    evaluated = [name for name in others if name.startswith(("val/", "test/"))]
    return [name for name in evaluated if name != metric.name][: MAX_METRICS - 1]


def settings_texts(groups: list[Repetitions]) -> list[str]:
    """The settings of each group that differ between them, as one would type them; [] without."""
    several = [group.rows[0]["settings"] for group in groups]
    columns = {}
    for key in differing_settings(several):
        values = [format_setting(key, value_of(settings, key)) for settings in several]
        # A class of a trial that was renamed has the same name in both places.
        if key.rpartition(".")[2] != "seed" and len(set(values)) > 1:
            columns[key] = values
    if not columns:
        return []
    titles = short_titles(list(columns))
    texts = []
    for n in range(len(groups)):
        typed = [f"{titles[key]}={values[n]}" for key, values in columns.items()]
        texts.append(f"`{' '.join(typed)}`")
    return texts


def format_metric(group: Repetitions, metric: str) -> str:
    """Mean ± deviation of the runs that have it."""
    values = [row["metrics"].get(metric) for row in group.rows]
    numbers = [float(value) for value in values if is_number(value)]
    return format_mean(numbers) if numbers else "-"


def format_commits(group: Repetitions) -> str:
    """The commits of the frozen code, newest first."""
    commits = list(dict.fromkeys(short_commit(row) for row in group.rows))
    shown = commits[:MAX_COMMITS]
    if len(commits) > MAX_COMMITS:
        shown.append("…")
    return " ".join(shown) + ("" if group.has_code_of_today else OTHER_CODE)
