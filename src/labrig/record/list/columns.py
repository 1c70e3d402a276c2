"""The columns of `lab runs list`: which metrics and settings are shown, and as what text.

And runs as a table for a notebook: plain values only.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from ...machine.text_formats import HOUR_S, ellipsis, format_value, printable
from ...machine.text_table import TextColumn
from ...project import Project
from ..files.schema import Row
from ..read.fields import LIST, NOTEBOOK, names_shown
from ..read.filters import filter_rows, parse_filter, require_keys
from ..read.ranking import main_first, monitors_of
from ..read.rows import read_rows
from ..read.run import run_roots
from ..read.settings import ABSENT, all_keys, differing_settings, format_setting, value_of
from ..read.status import job_state_of

N_FIRST_METRICS = (
    2  # with the wanted ones; the settings that differ come after these, before the other metrics
)
IN_EVERY_TABLE = ("run", "status", "trial")
MAX_SETTINGS = 6
MAX_SETTING_WIDTH = 20  # characters
# What comes with a data set, as its file in conf/data/ says it: one of them tells data sets apart
OF_DATA_SET = (
    *("data.path", "data._target_", "data.pack", "data.fields", "data.shapes", "data.scale"),
)


def choose_columns(
    rows: list[Row], names: list[str] | None, wanted: list[str], width: int, all_rows: list[Row]
) -> list[TextColumn]:
    """The columns `names`; where they are None, those that fit into `width` characters, two between them.

    Args:
        wanted: metrics and settings to show first.
        all_rows: also those that the filters left out, which may have settings of a like name.
    """
    if names is not None:
        return [named_column(rows, name) for name in names]
    columns = []
    for column in candidates(rows, wanted, all_rows):
        if 2 + len(column.title) <= width and 2 + column.width <= width:
            columns.append(column)
            width -= 2 + column.width
    return columns


def candidates(rows: list[Row], wanted: list[str], all_rows: list[Row]) -> Iterator[TextColumn]:
    """Columns in the order of their worth: wanted ones, the main metrics, settings that differ."""
    metrics = main_first((metric for row in rows for metric in row["metrics"]), monitors_of(rows))
    others = [metric for metric in metrics if metric not in wanted]
    for key in wanted:
        yield named_column(rows, key)
    n_wanted = sum(1 for metric in metrics if metric in wanted)
    n_first = max(0, N_FIRST_METRICS - n_wanted)
    for metric in others[:n_first]:
        yield metric_column(rows, metric)
    settings = settings_of_interest(rows)
    titles = short_titles(list(settings), all_keys([row["settings"] for row in all_rows]))
    for key, texts in settings.items():
        if key not in wanted:
            yield TextColumn(titles[key], texts, on_right=True)
    for metric in others[n_first:]:
        yield metric_column(rows, metric)


def settings_of_interest(rows: list[Row]) -> dict[str, Iterable[str]]:
    """The texts of the settings that differ, at most MAX_SETTINGS.

    What somebody varied within a trial comes first, and of that the seed last; then what differs
    between trials; then what comes with a data set, such as its fields.
    """
    within_trials: dict[str, Iterable[str]] = {}
    between_trials: dict[str, Iterable[str]] = {}
    trials = [row["trial"] for row in rows]
    for key, values in differing_settings([row["settings"] for row in rows]).items():
        texts = {value: format_text(key, value) for value in set(values)}
        if key == "trial" or len(set(texts.values())) == 1:
            continue
        group = within_trials if varies_within(trials, values) else between_trials
        group[key] = map(texts.__getitem__, values)
    if "seed" in within_trials:
        within_trials["seed"] = within_trials.pop("seed")
    both = within_trials | between_trials
    of_data_set = {key: both.pop(key) for key in OF_DATA_SET if key in both}
    return dict(list((both | of_data_set).items())[:MAX_SETTINGS])


def varies_within(groups: Sequence[Hashable], values: Sequence[Hashable]) -> bool:
    """Whether two members of one group have different values."""
    pairs = set(zip(groups, values, strict=True))
    return len(pairs) > len(set(groups))


def format_text(key: str, value: str) -> str:
    """A cell for the JSON of a setting, "" where a run lacks it."""
    if not value:
        return "-"
    return ellipsis(printable(format_setting(key, json.loads(value))), MAX_SETTING_WIDTH)


def short_titles(keys: list[str], among: Iterable[str] = ()) -> dict[str, str]:
    """The last part of each key, or as many as tell it from the others; `optimizer` for its class.

    Args:
        among: further keys that a title must not mean, so that a filter can take it (`full_key`).
    """
    names = {key: key.removesuffix("._target_") for key in [*among, *keys]}
    titles = {}
    for key in keys:
        name = names[key]
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            title = ".".join(parts[-n:])
            if [other for other in names.values() if f".{other}".endswith(f".{title}")] == [name]:
                break
        titles[key] = printable(title)
    return titles


def require_columns(rows: list[Row], names: list[str]) -> None:
    """Makes sure that every name is a field that --columns takes, a metric or a setting."""
    fields = names_shown(LIST)
    others = [name for name in names if name not in fields]
    require_keys(rows, others, [*IN_EVERY_TABLE, *fields])


def named_column(rows: list[Row], name: str) -> TextColumn:
    """The column of a name for which `require_columns` holds."""
    if name in names_shown(LIST):
        texts = (printable(format_field(row[name])) for row in rows)
        return TextColumn(name, texts, on_right=True)
    if any(name in row["metrics"] for row in rows):
        return metric_column(rows, name)
    values = (value_of(row["settings"], name) for row in rows)
    texts = (printable(format_setting(name, value)) for value in values)
    return TextColumn(printable(name), texts, on_right=True)


def metric_column(rows: list[Row], metric: str) -> TextColumn:
    values = [row["metrics"].get(metric) for row in rows]
    # A call for each of 10,000 numbers would take longer than formatting them
    texts = (f"{value:.4g}" if type(value) is float else format_value(value) for value in values)
    return TextColumn(printable(metric), texts, on_right=True)


def format_field(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def runs(*filters: str, project: Project | None = None) -> list[dict[str, Any]]:
    """The runs as a table, newest first: a dict for each, which pandas.DataFrame takes.

    Args:
        filters: as after `lab runs list`: "trial=wide", "status=finished", "val/loss<0.3".

    Returns:
        Facts such as run_id, trial, status, seed, commit, gpu_hours, run_dir; metrics by their
        names; the settings that differ between these runs by their dotted keys.

    Raises:
        LabError: a filter is not understood, or no run has what it names.
    """
    project = project or Project.of_notebook()
    rows = read_rows(run_roots(project), job_state_of())
    return flat_rows(filter_rows(rows, [parse_filter(text) for text in filters]))


def flat_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """A dict for each run: its facts, its metrics, and the settings that differ between the runs.

    A metric or setting that a run lacks is missing in its dict; pandas makes it NaN.
    """
    names = names_shown(NOTEBOOK)
    differing = differing_settings([row["settings"] for row in rows])
    settings = [key for key in differing if key not in names]
    return [flat_row(row, names, settings) for row in rows]


def flat_row(row: Row, names: list[str], settings: list[str]) -> dict[str, Any]:
    """One run: the fields `names`, and the settings with these dotted keys."""
    facts = {name: row[name] for name in names}
    facts["init_from"] = (row["init_from"] or {}).get("source")
    facts["gpu_hours"] = (row["gpu_seconds"] or 0) / HOUR_S
    facts["tags"] = ",".join(map(str, row["tags"]))
    values = {key: value_of(row["settings"], key) for key in settings}
    shown = {key: value for key, value in values.items() if value is not ABSENT}
    return facts | shown | row["metrics"]
