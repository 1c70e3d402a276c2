"""Everything that a page shows, gathered from the records of runs: of this project, and of other people's."""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..config.trial_names import trial_names
from ..errors import LabError
from ..machine.text_formats import printable
from ..project import Project
from ..record.compare.experiments import group_experiments
from ..record.files.json_lines import read_lines
from ..record.files.schema import Note, Row
from ..record.list.columns import settings_of_interest
from ..record.read.evaluations import evaluated_on, sets_in_order
from ..record.read.fields import REPORT, fields_shown, names_shown
from ..record.read.filters import Filter, filter_rows
from ..record.read.ranking import known_mode, main_first, monitors_of, settings_of
from ..record.read.rows import read_rows, run_directories, without_checks
from ..record.read.run import run_record, run_roots
from ..record.read.settings import as_text, flat_settings, format_setting
from ..record.read.status import COUNT_FIRST, JobStateOf
from ..trials.files import read_readme
from ..trials.tree import walk_tree
from .figures import MOST_POINTS, Curve, CurveReader, SavedPicture, find_pictures, pack_curves, thin

# The tree of trials, with the question that each one asks.


@dataclass(frozen=True)
class TrialLine:
    """One trial of the tree."""

    project: str
    name: str
    branches: str  # drawn before its name
    question: str
    verdict: str


def gather_trials(project: Project, name: str) -> list[TrialLine]:
    """The trials of this project, children after their parent; `name` is that of the project."""
    folder = project.source / "trials"
    readmes = {trial: read_readme(folder / trial) for trial in trial_names(project)}
    parents = {trial: readme.parent for trial, readme in readmes.items()}
    return [
        TrialLine(name, trial, branches, readmes[trial].question, readmes[trial].verdict)
        for trial, branches in walk_tree(list(readmes), parents)
    ]


# What a page says of a run besides its row: where it ran, its code, and links to both.

# https://host/path, ssh://git@host:22/path and git@host:path, of forges that show a commit
REMOTE = re.compile(
    r"(?:(?:https|ssh|git)://"
    r"(?:[\w.-]+@)?([\w.-]+)(?::\d+)?/|[\w.-]+@([\w.-]+):)([\w./~-]+)"
)
COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class RunFacts:
    """Facts of run.json and notes.jsonl, and the place of a run as seen from the page."""

    host: str | None
    overrides: str  # what was typed
    commit: str | None  # of the code that ran
    dirty: bool  # whether it differs from the commit that the link shows
    code_url: str | None  # of the commit, or of the one before uncommitted changes, at the remote
    notes: list[str]
    directory: str  # relative to the page, with / between its parts


def read_facts(run_dir: Path, folder: Path) -> RunFacts:
    """Facts of the run in `run_dir`; `folder` is that of the page."""
    record = run_record(run_dir)
    code = record.get("code", {})
    overrides = record.get("command", {}).get("overrides", [])
    notes = [
        entry["note"] for entry in read_lines(run_dir / "notes.jsonl", Note) if "note" in entry
    ]
    commit = code.get("commit")
    shown_commit = code.get("head") if code.get("dirty") else commit
    return RunFacts(
        host=record.get("host"),
        overrides=" ".join(overrides),
        commit=commit,
        dirty=bool(code.get("dirty")),
        code_url=commit_url(code.get("remote"), shown_commit),
        notes=notes,
        directory=os.path.relpath(run_dir, folder).replace(os.sep, "/"),
    )


def commit_url(remote: str | None, commit: str | None) -> str | None:
    """The page of a commit at a forge; None for a remote that is no forge."""
    match = REMOTE.fullmatch(str(remote))
    if not match or not COMMIT.fullmatch(str(commit)):
        return None
    host = match[1] or match[2]
    path = match[3].strip("/").removesuffix(".git")
    tree = "-/tree" if "gitlab" in host else "tree"
    return f"https://{host}/{path}/{tree}/{commit}"


MOST_VALUES = 4_200_000  # in all curves of a page
MOST_CHARACTERS = 12_000_000  # of all packed curves: the page stays below 15 MB
FEWEST_POINTS = 16  # of one curve
OF_PAGE = ("project", "host")  # facts that are no fields of a run


@dataclass(frozen=True)
class MetricCurves:
    """The curves of one metric: of the runs with these numbers, each with so many points."""

    metric: str
    runs: list[int]
    lengths: list[int]
    packed: str


@dataclass(frozen=True)
class PageReport:
    """What a page shows: a table as plain data, and what is too large to be opened with it."""

    table: dict[str, Any]
    curves: list[MetricCurves]
    pictures: list[SavedPicture]
    finished: list[str]  # directories of the runs whose numbers it shows

    @property
    def statuses(self) -> list[str]:
        return self.table["rows"]["status"]


def gather_report(
    project: Project,
    sources: list[RunsSource],
    filters: list[Filter],
    folder: Path,
    reader: CurveReader,
    job_state_of: JobStateOf | None = None,
) -> PageReport:
    """The runs of `sources` on which every filter holds.

    Args:
        folder: where the page will lie; links to files begin there.
    """
    rows, projects = read_sources(sources, job_state_of)
    n_all = len(rows)
    chosen = {row["run_dir"] for row in filter_rows(rows, filters)}
    projects = [name for name, row in zip(projects, rows, strict=True) if row["run_dir"] in chosen]
    rows = [row for row in rows if row["run_dir"] in chosen]
    directories = [Path(row["run_dir"]) for row in rows]
    read = [reader.read(directory) for directory in directories]
    curves = gather_curves([run.curves for run in read])
    settings = gather_settings(rows)
    pictures = find_pictures(directories, folder)
    facts = [read_facts(directory, folder) for directory in directories]
    table = {
        "project": project.root.name,
        "written": time.strftime("%Y-%m-%d %H:%M %z"),
        "n_all": n_all,
        "facts": describe_facts(),
        "rows": gather_rows(rows, projects, facts),
        "metrics": gather_metrics(rows, curves),
        "sets": {split: gather_sets(rows, split) for split in ("val", "test")},
        "settings": settings.columns,
        "common_settings": settings.common,
        "interesting": list(settings_of_interest(rows)),
        "seed_groups": numbers_of_groups(rows, projects),
        "trials": [asdict(trial) for trial in gather_trials(project, sources[0].name)],
        "clocks": [vars(run.clock) for run in read],
        "curves": [
            {"metric": each.metric, "runs": each.runs, "lengths": each.lengths} for each in curves
        ],
        "pictures": [picture.about for picture in pictures],
    }
    finished = [row["run_dir"] for row in rows if row["status"] == "finished"]
    return PageReport(as_printable(table), curves, pictures, finished)


def read_sources(
    sources: list[RunsSource], job_state_of: JobStateOf | None
) -> tuple[list[Row], list[str]]:
    """The rows of all sources, newest first, and the name of the project of each."""
    pairs = [
        (row, source.name)
        for source in sources
        for row in without_checks(read_rows(source.roots, job_state_of))
    ]
    if len(sources) > 1:
        pairs.sort(key=lambda pair: pair[0]["created"] or "", reverse=True)
    return [row for row, _ in pairs], [name for _, name in pairs]


def describe_facts() -> list[dict[str, Any]]:
    """For the column of each fact its key, its title, the column of `rows`, and the unit."""
    described = [
        {
            "key": field.key or field.name,
            "title": field.title or field.key or field.name,
            "of": field.name,
            "per": field.per,
        }
        for field in fields_shown(REPORT)
    ]
    return described + [{"key": key, "title": key, "of": key, "per": 0} for key in OF_PAGE]


def gather_rows(rows: list[Row], projects: list[str], facts: list[RunFacts]) -> dict[str, list]:
    """The columns of the table that are neither metrics nor settings."""
    names = names_shown(REPORT)
    columns: dict[str, list] = {name: [row[name] for row in rows] for name in names}
    columns["tags"] = [" ".join(row["tags"]) for row in rows]
    columns["changes"] = ["; ".join(row["changes"]) for row in rows]
    columns["project"] = projects
    for key in RunFacts.__dataclass_fields__:
        columns[key] = [getattr(fact, key) for fact in facts]
    return columns


def gather_metrics(rows: list[Row], curves: list[MetricCurves]) -> list[dict[str, Any]]:
    """Every metric, those of checkpoint.monitor first: its last values, and which are better.

    `mode` is min or max; None where nothing says it, so that no run is called the best by it.
    """
    names = [name for row in rows for name in row["metrics"]]
    names += [each.metric for each in curves]
    settings = settings_of(rows)
    return [
        {
            "name": name,
            "mode": known_mode(name, settings),
            "values": [short(row["metrics"].get(name)) for row in rows],
        }
        for name in main_first(names, monitors_of(rows))
    ]


def gather_sets(rows: list[Row], split: str) -> list[int]:
    """A number for each run; those that were evaluated on the same samples have the same.

    0 is what one compares first, see `sets_in_order`.
    """
    of_runs = [evaluated_on(row, f"{split}/") for row in rows]
    finished = [row for row in rows if row["status"] in COUNT_FIRST]
    order = [*sets_in_order(finished, f"{split}/"), *of_runs]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(order))}
    return [numbers[each] for each in of_runs]


def short(value: Any) -> Any:
    """A number with six digits; the page shows four."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def gather_curves(curves_of_runs: list[dict[str, Curve]]) -> list[MetricCurves]:
    """The curves by metric, thinned so that all together take at most MOST_CHARACTERS."""
    lengths = [len(curve.steps) for curves in curves_of_runs for curve in curves.values()]
    n_points = points_of_curve(lengths)
    while True:
        gathered = pack_metrics(curves_of_runs, n_points)
        n_characters = sum(len(each.packed) for each in gathered)
        if n_characters <= MOST_CHARACTERS or n_points <= FEWEST_POINTS:
            return gathered
        n_points = max(FEWEST_POINTS, int(0.9 * n_points * MOST_CHARACTERS / n_characters))


def pack_metrics(curves_of_runs: list[dict[str, Curve]], n_points: int) -> list[MetricCurves]:
    """The curves of each metric, with at most `n_points` points."""
    names = dict.fromkeys(name for curves in curves_of_runs for name in curves)
    gathered = []
    for name in names:
        runs = [
            run
            for run, curves in enumerate(curves_of_runs)
            if name in curves and len(curves[name].steps)
        ]
        curves = [thin(curves_of_runs[run][name], n_points) for run in runs]
        lengths = [len(curve.steps) for curve in curves]
        gathered.append(MetricCurves(name, runs, lengths, pack_curves(curves)))
    return gathered


def points_of_curve(lengths: list[int]) -> int:
    """How many points each curve may have, so that all together have at most MOST_VALUES."""
    n_points = MOST_POINTS
    while n_points > FEWEST_POINTS and sum(min(n, n_points) for n in lengths) > MOST_VALUES:
        n_points = n_points * 9 // 10
    return n_points


def as_printable(value: Any) -> Any:
    """Plain data whose texts can neither move a cursor nor end a line, when they are copied."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): as_printable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_printable(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


# The settings of many runs as columns in which equal values are held once.


@dataclass(frozen=True)
class SettingsColumns:
    """Settings of runs.

    Args:
        columns: for each that differs its distinct values, and which of them each run has; None
            where a run lacks it.
        common: those that all runs share.
    """

    columns: dict[str, dict[str, list]]
    common: dict[str, Any]


def gather_settings(rows: list[Row]) -> SettingsColumns:
    leaves = [flat_settings(row["settings"]) for row in rows]
    columns = {}
    common = {}
    for key in dict.fromkeys(key for settings in leaves for key in settings):
        places: dict[str, int] = {}
        values = []
        place_of_run: list[int | None] = []
        for settings in leaves:
            if key not in settings:
                place_of_run.append(None)
                continue
            value = settings[key]
            text = as_text(value)
            if text not in places:
                places[text] = len(values)
                values.append(shown_value(key, value))
            place_of_run.append(places[text])
        if len(values) == 1 and None not in place_of_run:
            common[key] = values[0]
        else:
            columns[key] = {"values": values, "of_run": place_of_run}
    return SettingsColumns(columns, common)


def shown_value(key: str, value: Any) -> Any:
    """A number as it is, so that it sorts; anything else as one would type it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return format_setting(key, value)


def numbers_of_groups(rows: list[Row], projects: list[str]) -> list[int]:
    """A number for each run; runs of one experiment, over which a mean may be taken, have the same.

    Args:
        projects: of each run.
    """
    places = {row["run_dir"]: place for place, row in enumerate(rows)}
    groups: list[list[Row]] = []
    for project in dict.fromkeys(projects):
        of_project = [row for row, name in zip(rows, projects, strict=True) if name == project]
        for experiment in group_experiments(of_project):
            groups += [experiment.rows, *([row] for row in experiment.older)]
    groups.sort(key=lambda group: min(places[row["run_dir"]] for row in group))
    numbers = {row["run_dir"]: n for n, group in enumerate(groups) for row in group}
    return [numbers[row["run_dir"]] for row in rows]


@dataclass(frozen=True)
class RunsSource:
    """The runs of one project."""

    name: str  # in the report
    roots: list[Path]  # directories of runs


def list_sources(project: Project, directories: list[Path]) -> list[RunsSource]:
    """This project's runs, then those of `directories`, each once and under a name of its own.

    Args:
        directories: projects, or their directories of runs.
    """
    of_project = RunsSource(project.root.name, run_roots(project))
    own_roots = {root.resolve() for root in of_project.roots}
    others = {source.roots[0]: source for source in map(source_of, directories)}
    further = [source for root, source in others.items() if root not in own_roots]
    return name_apart([of_project, *further])


def source_of(directory: Path) -> RunsSource:
    """The runs in a project, or in a directory of runs."""
    directory = directory.resolve()
    for runs in (directory / "runs", directory):
        if next(run_directories(runs), None):
            name = runs.parent.name if runs.name == "runs" else runs.name
            return RunsSource(name, [runs])
    raise LabError(
        f"no runs in {directory}. --runs takes projects, or directories such as PROJECT/runs."
    )


def name_apart(sources: list[RunsSource]) -> list[RunsSource]:
    """The sources; where several have one name, each with the directory around its project."""
    n_with_name = Counter(source.name for source in sources)
    return [
        source
        if n_with_name[source.name] == 1
        else replace(source, name=f"{source.roots[0].parent.parent.name}/{source.name}")
        for source in sources
    ]
