"""The columns of `lab runs list`: which metrics and settings are shown, and as what text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..machine.terminal import printable
from .filters import require_keys
from .schema import Row
from .settings import differing_settings, format_setting, value_of

FAVOURITES = ("val/loss", "val/acc", "test/loss", "test/acc", "train/loss")
N_FIRST_METRICS = 2  # the settings that differ come after these, before the other metrics
MAX_SETTINGS = 6
MAX_SETTING_WIDTH = 20  # characters
# What --columns takes besides settings and metrics
FACTS = ("who", "created", "seconds", "gpu_seconds", "device", "tags", "why", "n_attempts")


@dataclass(frozen=True)
class Column:
    """A title, and a text for each row, made when it is needed; on the right of its width."""

    title: str
    texts: Iterable[str]

    @cached_property
    def cells(self) -> list[str]:
        return list(self.texts)

    @cached_property
    def width(self) -> int:
        """In characters."""
        return max(len(self.title), max(map(len, self.cells), default=0))


def choose_columns(
    rows: list[Row], names: list[str], wanted: list[str], width: int
) -> list[Column]:
    """The columns `names`; without any, those that fit into `width` characters, two between them.

    Args:
        wanted: metrics and settings to show first.
    """
    if names:
        return [named_column(rows, name) for name in names]
    columns = []
    for column in candidates(rows, wanted):
        if 2 + len(column.title) <= width and 2 + column.width <= width:
            columns.append(column)
            width -= 2 + column.width
    return columns


def candidates(rows: list[Row], wanted: list[str]) -> Iterator[Column]:
    """Columns in the order of their worth: wanted ones, the main metrics, settings that differ."""
    existing = {metric: None for row in rows for metric in row["metrics"]}
    favourites = [metric for metric in FAVOURITES if metric in existing]
    metrics = list(dict.fromkeys([*favourites, *existing]))
    others = [metric for metric in metrics if metric not in wanted]
    for key in wanted:
        yield named_column(rows, key)
    for metric in others[:N_FIRST_METRICS]:
        yield metric_column(rows, metric)
    settings = settings_of_interest(rows)
    titles = short_titles(list(settings))
    for key, texts in settings.items():
        if key not in wanted:
            yield Column(titles[key], texts)
    for metric in others[N_FIRST_METRICS:]:
        yield metric_column(rows, metric)


def settings_of_interest(rows: list[Row]) -> dict[str, Iterable[str]]:
    """The texts of the settings that differ, at most MAX_SETTINGS.

    What somebody varied within a trial comes first, and of that the seed last; then what differs
    between trials.
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
    return dict(list(both.items())[:MAX_SETTINGS])


def varies_within(groups: list[str], values: list[str]) -> bool:
    """Whether two members of one group have different values."""
    pairs = set(zip(groups, values, strict=True))
    return len(pairs) > len(set(groups))


def format_text(key: str, value: str) -> str:
    """A cell for the JSON of a setting, "" where a run lacks it."""
    if not value:
        return "-"
    return ellipsis(printable(format_setting(key, json.loads(value))), MAX_SETTING_WIDTH)


def short_titles(keys: list[str]) -> dict[str, str]:
    """The last part of each key, or as many as tell it from the others; `optimizer` for its class."""
    names = {key: key.removesuffix("._target_") for key in keys}
    titles = {}
    for key, name in names.items():
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            title = ".".join(parts[-n:])
            if [other for other in names.values() if f".{other}".endswith(f".{title}")] == [name]:
                break
        titles[key] = printable(title)
    return titles


def require_columns(rows: list[Row], names: list[str]) -> None:
    """Makes sure that every name is one of FACTS, a metric or a setting.

    Raises:
        LabError: with the nearest name.
    """
    require_keys(rows, [name for name in names if name not in FACTS])


def named_column(rows: list[Row], name: str) -> Column:
    """The column of a name for which `require_columns` holds."""
    if name in FACTS:
        return Column(name, (printable(format_fact(row[name])) for row in rows))
    if any(name in row["metrics"] for row in rows):
        return metric_column(rows, name)
    values = (value_of(row["settings"], name) for row in rows)
    return Column(printable(name), (printable(format_setting(name, value)) for value in values))


def metric_column(rows: list[Row], metric: str) -> Column:
    values = [row["metrics"].get(metric) for row in rows]
    # A call for each of 10,000 numbers would take longer than formatting them
    texts = (f"{value:.4g}" if type(value) is float else format_value(value) for value in values)
    return Column(printable(metric), texts)


def format_fact(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def format_value(value: Any) -> str:
    """A metric with four digits; "-" when there is none."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else printable(value)


def ellipsis(text: str, width: int) -> str:
    """`text`, cut to `width` characters with "…" at its end when it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"
