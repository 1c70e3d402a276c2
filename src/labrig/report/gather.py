"""Everything that a page shows, gathered from the records of runs."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..machine.terminal import printable
from ..project import Project
from ..record.columns import FAVOURITES, settings_of_interest
from ..record.filters import Filter, filter_rows
from ..record.index import read_rows
from ..record.ranking import lower_is_better
from ..record.schema import Row
from ..record.status import JobStateOf
from ..record.trial_code import codes_of_rows
from .curves import MOST_POINTS, Curve, CurveReader, thin
from .packing import pack_curves
from .pictures import Picture, find_pictures
from .run_facts import RunFacts, read_facts
from .settings_columns import gather_settings, same_but_seed
from .sources import Source
from .trials import gather_trials

MOST_VALUES = 4_200_000  # in all curves of a page
MOST_CHARACTERS = 12_000_000  # of all packed curves: the page stays below 15 MB
FEWEST_POINTS = 16  # of one curve
# Columns of a row that the page takes as they are
OF_ROW = (
    "run_id", "trial", "status", "who", "created", "seed", "why", "parent", "device",
    "seconds", "gpu_seconds", "energy_j", "n_attempts", "exception",
)  # fmt: skip


@dataclass(frozen=True)
class MetricCurves:
    """The curves of one metric: of the runs with these numbers, each with so many points."""

    metric: str
    runs: list[int]
    lengths: list[int]
    packed: str


@dataclass(frozen=True)
class Report:
    """What a page shows: a table as plain data, and what is too large to be opened with it."""

    table: dict[str, Any]
    curves: list[MetricCurves]
    pictures: list[Picture]

    @property
    def statuses(self) -> list[str]:
        return self.table["rows"]["status"]


def gather_report(
    project: Project,
    sources: list[Source],
    filters: list[Filter],
    folder: Path,
    reader: CurveReader,
    job_state_of: JobStateOf | None = None,
) -> Report:
    """The runs of `sources` on which every filter holds.

    Args:
        folder: where the page will lie; links to files begin there.

    Raises:
        LabError: a filter names what no run has.
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
        "rows": gather_rows(rows, projects, facts),
        "metrics": gather_metrics(rows, curves),
        "settings": settings.columns,
        "common_settings": settings.common,
        "interesting": list(settings_of_interest(rows)),
        "seed_groups": same_but_seed(rows, projects, settings, codes_of_rows(project.root, rows)),
        "trials": [asdict(trial) for trial in gather_trials(project, sources[0].name)],
        "clocks": [vars(run.clock) for run in read],
        "curves": [
            {"metric": each.metric, "runs": each.runs, "lengths": each.lengths} for each in curves
        ],
        "pictures": [picture.about for picture in pictures],
    }
    return Report(as_printable(table), curves, pictures)


def read_sources(
    sources: list[Source], job_state_of: JobStateOf | None
) -> tuple[list[Row], list[str]]:
    """The rows of all sources, newest first, and the name of the project of each."""
    pairs = [
        (row, source.name) for source in sources for row in read_rows(source.roots, job_state_of)
    ]
    if len(sources) > 1:
        pairs.sort(key=lambda pair: pair[0]["created"] or "", reverse=True)
    return [row for row, _ in pairs], [name for _, name in pairs]


def gather_rows(rows: list[Row], projects: list[str], facts: list[RunFacts]) -> dict[str, list]:
    """The columns of the table that are neither metrics nor settings."""
    columns: dict[str, list] = {key: [row[key] for row in rows] for key in OF_ROW}
    columns["tags"] = [" ".join(row["tags"]) for row in rows]
    columns["changes"] = ["; ".join(row["changes"]) for row in rows]
    columns["project"] = projects
    for key in RunFacts.__dataclass_fields__:
        columns[key] = [getattr(fact, key) for fact in facts]
    return columns


def gather_metrics(rows: list[Row], curves: list[MetricCurves]) -> list[dict[str, Any]]:
    """Every metric, the main ones first: its last values, and whether a small one is good."""
    names = dict.fromkeys(name for row in rows for name in row["metrics"])
    names |= dict.fromkeys(each.metric for each in curves)
    ordered = [name for name in FAVOURITES if name in names]
    ordered += [name for name in names if name not in FAVOURITES]
    return [
        {
            "name": name,
            "lower": lower_is_better(name),
            "values": [short(row["metrics"].get(name)) for row in rows],
        }
        for name in ordered
    ]


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
