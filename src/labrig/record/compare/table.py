"""`lab runs table`: a line for each experiment, its mean and deviation over seeds, for a paper."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from ...command_parser import CommandParser
from ...errors import LabError, require_package
from ...machine.text_formats import counted, format_deviation, format_mean, printable
from ...machine.text_table import Cell, format_latex, format_markdown, format_text
from ...project import Project
from ..files.schema import Row
from ..list.columns import varies_within
from ..read.evaluations import metric_and_place
from ..read.filters import (
    FILTERS,
    filter_rows,
    full_key,
    none_of,
    parse_filter,
    require_keys,
    sortable,
)
from ..read.ranking import (
    SPLIT,
    known_mode,
    main_first,
    question,
    require_metric,
    settings_of,
    split_of,
)
from ..read.rows import read_rows, without_checks
from ..read.run import run_roots
from ..read.settings import as_text, differing_settings, format_setting, value_of
from .code_files import find_same_code
from .experiments import (
    CODE,
    FOLD,
    RESOLVED,
    Experiment,
    group_experiments,
    numbers_of,
    pairs_of,
    remarks_on,
    remarks_on_code,
    remarks_on_folds,
)
from .repetitions import DATA_PLACES, without_seeds
from .seed_statistics import (
    CONFIDENCE,
    FEWEST_PAIRS,
    FEWEST_TO_RANK,
    OF_FOLDS,
    format_test,
    half_interval,
    paired_t_test,
)

DESCRIPTION = (
    "Mean ± sample standard deviation over the runs that differ in their seed only; a line for each "
    "experiment. What tells the lines apart is a column: the settings in --by or those that differ, "
    "the files of the code, the data. A default counts: typed or not, it is the same. The last value "
    "of each finished run is taken; of two runs with the same seed the newer one. Below two lines "
    "with three seeds or more in common stands a paired t-test."
)
# Columns that come only where runs with the same settings were made by something else.
MADE_BY = ("data", "samples", "started from", "tested weights", *RESOLVED.values(), "attempts")
LAST_RESORT = "run"  # the column that comes where nothing else tells lines apart
NO_SCIPY = "it needs the package scipy: make add PACKAGE=scipy"
SAME_DATA = ("data", "samples")  # what lines must have alike for their means to be compared
UNFINISHED = ("status", LAST_RESORT)  # columns of runs that are comparable to none


@dataclass(frozen=True)
class Table:
    """The lines of a table, and what is to be said of them.

    Attributes:
        names: what tells the lines apart: the trial, settings, or a title in `made_by`.
        over: settings next to the seed over which the means are.
        has_intervals: confidence intervals in place of deviations.
        same_code: paths of files of the code that were not compared.
        remarks: what its reader must know, a line each.
    """

    experiments: list[Experiment]
    names: list[str]
    metrics: list[str]
    over: tuple[str, ...]
    has_intervals: bool
    same_code: tuple[str, ...]
    remarks: list[str]

    @property
    def header(self) -> list[str]:
        return [*self.names, *self.metrics, "n"]

    @property
    def lines(self) -> list[list[str]]:
        words = lines_of(self.experiments, self.names)
        return [
            [
                *shown,
                *(format_cell(experiment, metric, self.has_intervals) for metric in self.metrics),
                str(len(experiment.rows)),
            ]
            for shown, experiment in zip(words, self.experiments, strict=True)
        ]

    @property
    def legend(self) -> str:
        """What the numbers are, in a line."""
        units = "seeds" if not self.over else f"seeds and {', '.join(self.over)}"
        interval = f"half the {CONFIDENCE:.0%} interval (Student)"
        spread = interval if self.has_intervals else "sample standard deviation (n - 1)"
        return f"mean ± {spread} over n {units}"

    @property
    def joined(self) -> list[str]:
        """A line of the table about what was left out of the comparison on purpose."""
        if not self.same_code:
            return []
        return [f"joined whatever these files were: {', '.join(self.same_code)}"]


def table_command(project: Project, args: list[str]) -> None:
    """`lab runs table`."""
    options = table_parser().parse_intermixed_args(args)
    all_rows = read_rows(run_roots(project))
    table = build_table(all_rows, options)
    if table is None:
        print(none_of(all_rows, map(parse_filter, options.where)))
        return
    for remark in table.remarks:
        note(remark)
    tests = [*table.joined, *paired_tests(table)]
    n_words = len(table.names)
    if options.latex:
        comments = [f"% {printable(test)}" for test in tests]
        bold = best_cells(table)
        latex = format_latex(table.header, table.lines, bold, n_words=n_words)
        print("\n".join([*comments, latex]))
    elif options.md:
        print("\n\n".join([format_markdown(table.header, table.lines, best_cells(table)), *tests]))
    else:
        print("\n".join([*format_by_data(table), *tests]), flush=True)
    for line in why_no_test(table):
        note(line)


def format_by_data(table: Table) -> list[str]:
    """The metrics on the data of the runs, then those on other data, a table of its own for each."""
    blocks = []
    for place in dict.fromkeys(metric_and_place(metric)[1] for metric in table.metrics):
        metrics = [metric for metric in table.metrics if metric_and_place(metric)[1] == place]
        measured = [
            experiment
            for experiment in table.experiments
            if not place or any(numbers_of(experiment, metric) for metric in metrics)
        ]
        part = replace(table, experiments=measured, metrics=metrics)
        title = [f"on {place}:"] if place else []
        header = [*part.names, *(metric_and_place(metric)[0] for metric in metrics), "n"]
        blocks += [*title, format_text(header, part.lines)]
    return blocks


def table_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="lab runs table", description=f"{DESCRIPTION} {FILTERS}")
    parser.add_argument(
        "where", nargs="*", metavar="FILTER", help="which runs, for example: trial=wide since=7d"
    )
    add_table_options(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--latex", action="store_true", help="a tabular for the packages booktabs and siunitx"
    )
    output.add_argument("--md", action="store_true", help="Markdown")
    return parser


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that makes a table."""
    parser.add_argument(
        "--by",
        metavar="SETTINGS",
        help="the first columns, separated by commas: optimizer.lr,model.width "
        "(default: trial, and the settings that differ)",
    )
    parser.add_argument(
        "--over",
        metavar="SETTINGS",
        help="take the mean over these, too, such as the folds of the data: data.fold",
    )
    parser.add_argument(
        "--same-code",
        metavar="FILES",
        action="append",
        default=[],
        help="join runs although these files of their code differ, separated by commas: data.py; "
        "the table says so",
    )
    parser.add_argument(
        "--metric",
        metavar="NAMES",
        help="a column for each, separated by commas (default: all of test/, else of val/; "
        "over folds all of val/)",
    )
    parser.add_argument(
        "--ci",
        action="store_true",
        help=f"{CONFIDENCE:.0%} confidence intervals (Student) in place of deviations".replace(
            "%", "%%"
        ),
    )


def build_table(all_rows: list[Row], options: argparse.Namespace) -> Table | None:
    """The table of the runs that the options choose; None when they choose none.

    Args:
        all_rows: newest first.
        options: of `add_table_options`, and the filters in `where`.
    """
    by = [full_key(all_rows, key) for key in options.by.split(",")] if options.by else []
    over_words = options.over.split(",") if options.over else []
    over = tuple(full_key(all_rows, key) for key in over_words)
    require_keys(all_rows, [name for name in (*by, *over) if name != "trial"], ["trial"])
    if options.ci:
        require_package("scipy", "--ci")
    rows, remarks = choose_rows(all_rows, options.where)
    if not rows:
        for remark in remarks:
            note(remark)
        return None
    metrics = choose_metrics(rows, options.metric, over)
    remarks += remarks_on_folds(metrics, over)
    typed = [name for names in options.same_code for name in names.split(",") if name]
    same_code = find_same_code(rows, typed)
    experiments = group_experiments(rows, over, tuple(by), same_code)
    if not options.metric:  # an older run of a seed may have been evaluated, the newer one not
        metrics = [
            metric
            for metric in metrics
            if any(numbers_of(experiment, metric) for experiment in experiments)
        ] or metrics
    names = names_of_columns(experiments, by, over)
    remarks += remarks_on_columns(names, by)
    if CODE in names:
        remarks += [*remarks_on_code(experiments), "to join them all the same: --same-code FILE"]
    remarks += remarks_on(experiments, over)

    def place(experiment: Experiment) -> tuple:
        settings = [name for name in names if name not in experiment.made_by]
        return tuple(sortable(value_in(experiment, name)) for name in settings)

    in_order = sorted(experiments, key=place)
    return Table(in_order, names, metrics, over, options.ci, same_code, remarks)


def choose_rows(all_rows: list[Row], where: list[str]) -> tuple[list[Row], list[str]]:
    """The runs that pass the filters, and what to say of them.

    Without a filter of the status only finished ones.
    """
    filters = [parse_filter(text) for text in where]
    rows = without_checks(filter_rows(all_rows, filters))
    if any(wanted.key == "status" for wanted in filters):
        return rows, []
    finished = [row for row in rows if row["status"] == "finished"]
    if len(finished) == len(rows):
        return rows, []
    unfinished = counted(len(rows) - len(finished), "unfinished run")
    return finished, [f"left out: {unfinished}; status=... takes others"]


def choose_metrics(rows: list[Row], names: str | None, over: tuple[str, ...]) -> list[str]:
    """The metrics that were named, separated by commas, else the default ones: over folds those of
    the rows that were held out.
    """
    if names:
        for metric in names.split(","):
            require_metric(rows, metric)
        return names.split(",")
    metrics = default_metrics(rows, ("val", "test") if FOLD in over else ("test", "val"))
    first = monitored_metrics(rows, metrics)
    return [*first, *(metric for metric in metrics if metric not in first)]


def default_metrics(rows: list[Row], splits: tuple[str, ...]) -> list[str]:
    """The metrics of the first of these splits that has some, else all."""
    names = main_first(name for row in rows for name in row["metrics"])
    for split in splits:
        metrics = [name for name in names if split_of(name) == split]
        if metrics:
            return metrics
    if names:
        return names
    raise LabError("these runs have no metric yet. Runs: lab runs list")


def monitored_metrics(rows: list[Row], metrics: list[str]) -> list[str]:
    """Those of `metrics` that measure what chose best.ckpt: test/iou, where that was val/iou."""
    chosen = {str(value_of(row["settings"], "checkpoint.monitor")) for row in rows}
    quantities = {SPLIT.sub("", name, count=1) for name in chosen}
    return [metric for metric in metrics if SPLIT.sub("", metric, count=1) in quantities]


def names_of_columns(
    experiments: list[Experiment], by: list[str], over: tuple[str, ...]
) -> list[str]:
    """What tells the experiments apart: `by`, by default the trial; settings; what made the numbers.

    Of the settings those count that differ within a trial.
    """
    names = by or ["trial"]
    trials = [experiment.rows[0]["trial"] for experiment in experiments]
    if "trial" not in names and len(set(trials)) > 1:
        names = [*names, "trial"]
    has_data_alike = len({experiment.made_by["data"] for experiment in experiments}) == 1
    passed_over = DATA_PLACES if has_data_alike else DATA_PLACES[1:]
    for key in differing_settings([without_seeds(each.settings) for each in experiments]):
        texts = shown_values(experiments, key)
        is_new = key != "trial" and key not in (*names, *over, *passed_over)
        if is_new and varies_within(trials, texts):
            names = [*names, key]
    lines = lines_of(experiments, names)
    for title in dict.fromkeys(title for each in experiments for title in each.made_by):
        if title == LAST_RESORT:
            lines = lines_of(experiments, names)
        # Two commits may hold the same code.
        values = [each.code if title == CODE else each.made_by.get(title) for each in experiments]
        if title not in names and varies_within(lines, values):
            names = [*names, title]
    return names


def remarks_on_columns(names: list[str], by: list[str]) -> list[str]:
    """What columns there are that nobody asked for."""
    made_by = [title for title in (CODE, *MADE_BY) if title in names]
    remarks = [f"these runs differ in {title}: see its column" for title in made_by]
    added = [name for name in names if name not in (*by, CODE, *MADE_BY, *UNFINISHED)]
    if by and added:
        remarks.append(f"the runs also differ in {', '.join(added)}: a column for each")
    return remarks


def value_in(experiment: Experiment, name: str) -> Any:
    """What stands in a column of names: a setting, or what made the numbers."""
    if name == "trial":
        return experiment.rows[0]["trial"]
    if name in experiment.made_by:
        return experiment.made_by[name]
    return value_of(experiment.settings, name)


def lines_of(experiments: list[Experiment], names: list[str]) -> list[tuple[str, ...]]:
    """What stands in the columns `names` of each line."""
    return list(zip(*(shown_values(experiments, name) for name in names), strict=True))


def shown_values(experiments: list[Experiment], name: str) -> list[str]:
    """What stands in a column of names; floats with all digits where six show different ones alike."""
    values = [value_in(experiment, name) for experiment in experiments]
    texts = [format_setting(name, value) for value in values]
    is_clear = len(set(texts)) == len(set(map(as_text, values)))
    pairs = zip(values, texts, strict=True)
    return texts if is_clear else [str(a) if isinstance(a, float) else text for a, text in pairs]


def note(text: str) -> None:
    print(f"lab: {printable(text)}", file=sys.stderr)


def format_cell(experiment: Experiment, metric: str, has_interval: bool = False) -> str:
    """Mean ± standard deviation of a metric; the number of runs, when not all have it.

    Args:
        has_interval: half the confidence interval in place of the deviation.
    """
    numbers = numbers_of(experiment, metric)
    if not numbers:
        return "-"
    if not all(map(math.isfinite, numbers)):
        text = f"{sum(numbers)}"
    elif has_interval and len(numbers) > 1:
        text = format_deviation(statistics.fmean(numbers), half_interval(numbers))
    else:
        text = format_mean(numbers)
    if len(numbers) < len(experiment.rows):
        text += f" ({counted(len(numbers), 'run')})"
    return text


def best_cells(table: Table) -> list[Cell]:
    """The cells with the best mean of each metric, where it differs from all others.

    That is where all lines have the metric from as many runs, at least FEWEST_TO_RANK, on the same
    data, and it is known whether higher is better. Where it is not, a line asks. The best must differ
    from each other line by a t-test paired by seed.
    """
    if len(table.experiments) > 1 and find_spec("scipy") is None:
        note(f"not in bold: {NO_SCIPY}")
        return []
    made_on = {tuple(each.made_by[key] for key in SAME_DATA) for each in table.experiments}
    settings = [each for experiment in table.experiments for each in settings_of(experiment.rows)]
    cells = []
    for place, metric in enumerate(table.metrics):
        numbers = [numbers_of(experiment, metric) for experiment in table.experiments]
        n = {len(of_line) for of_line in numbers}
        is_finite = all(math.isfinite(sum(of_line)) for of_line in numbers)
        if len(numbers) < 2 or len(n) > 1 or min(n) < FEWEST_TO_RANK or not is_finite:
            continue
        if len(made_on) > 1 and not metric_and_place(metric)[1]:
            continue
        mode = known_mode(metric, settings)
        if mode is None:
            note(f"not in bold: {question(metric)}")
            continue
        means = [statistics.fmean(of_line) for of_line in numbers]
        best = means.index(min(means) if mode == "min" else max(means))
        if all(
            differs(table.experiments[best], other, metric, table.over)
            for other in table.experiments
            if other is not table.experiments[best]
        ):
            cells.append((best, len(table.names) + place))
    return cells


def differs(one: Experiment, other: Experiment, metric: str, over: tuple[str, ...]) -> bool:
    """Whether a t-test tells two lines apart."""
    test = paired_t_test(pairs_of(one, other, metric, over))
    return test is not None and test.p < 1 - CONFIDENCE


def paired_tests(table: Table) -> list[str]:
    """A sentence for each metric about the difference of the two lines of a table.

    None for more lines, for other data in them, and for few seeds in common; see `why_no_test`.
    """
    if why_not_two(table) is not None:
        return []
    first, second = table.experiments
    sentences = []
    for metric in table.metrics:
        test = paired_t_test(pairs_of(first, second, metric, table.over))
        if test:
            some = test.n < max(len(first.rows), len(second.rows))
            rest = ", of what both lines have" if some else ""
            sentences.append(f"{metric}: {format_test(test, table.over)}{rest}")
    if sentences and FOLD in table.over:
        sentences.append(OF_FOLDS)
    return sentences


def why_not_two(table: Table) -> str | None:
    """Why a table does not show two lines that can be compared; None when it does."""
    if find_spec("scipy") is None:
        return NO_SCIPY
    if len(table.experiments) != 2:
        return f"the table has {counted(len(table.experiments), 'line')}, and a test compares two"
    first, second = table.experiments
    other = [title for title in SAME_DATA if first.made_by[title] != second.made_by[title]]
    return f"the lines differ in {' and '.join(other)}" if other else None


def why_no_test(table: Table) -> list[str]:
    """Lines that say why there is no t-test, where somebody may expect one."""
    has_means = any(len(each.rows) > 1 for each in table.experiments)
    if len(table.experiments) < 2 or not has_means:
        return []
    reason = why_not_two(table)
    if reason:
        return [f"no t-test: {reason}"]
    lines = []
    for metric in table.metrics:
        pairs = pairs_of(table.experiments[0], table.experiments[1], metric, table.over)
        if len(pairs) < FEWEST_PAIRS:
            n = counted(len(pairs), "seed")
            lines.append(
                f"no t-test of {metric}: {n} in common on the same samples, {FEWEST_PAIRS} are needed"
            )
        elif paired_t_test(pairs) is None:
            lines.append(f"no t-test of {metric}: all pairs differ by the same")
    return lines
