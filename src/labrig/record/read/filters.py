"""Filters and sorting of `lab runs list`: val/loss<0.1, optimizer.lr=1e-3, trial=wide, since=7d."""

from __future__ import annotations

import json
import math
import operator
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatch
from functools import cached_property
from typing import Any, TypeGuard

from ...errors import LabError, nearest
from ...machine.text_formats import counted
from ...machine.text_table import is_number_text
from ..files.atomic import number
from ..files.schema import Row
from .evaluations import alike
from .ranking import rank_by_metric, require_mode, settings_of, split_mode
from .settings import ABSENT, all_keys, value_of
from .status import STATES

# Moments that are typed (7d, 2026-11-01) or recorded, as seconds since 1970.

AGO = re.compile(r"(\d+(?:\.\d+)?)([hdw])")
UNIT_S = {"h": 3600, "d": 86400, "w": 7 * 86400}
MONTH = re.compile(r"\d{4}-\d{2}")


def typed_moment(text: str) -> float:
    """The moment that was typed: so long ago, or a date (the local midnight) with or without a time."""
    ago = AGO.fullmatch(text)
    if ago:
        return time.time() - float(ago[1]) * UNIT_S[ago[2]]
    date = f"{text}-01" if MONTH.fullmatch(text) else text
    try:
        return datetime.fromisoformat(date).timestamp()
    except (ValueError, OverflowError) as error:
        raise LabError(
            f"{text!r} is no time. Write 12h, 7d or 2w (ago), 2026-11, 2026-11-15 or "
            "2026-11-15T18:00"
        ) from error


def recorded_moment(created: str | None) -> float:
    """`created` of a record, which is ISO 8601; 0 where it is missing or something else."""
    try:
        return datetime.fromisoformat(created or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0


OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
ORDERING = ("<=", ">=", "<", ">")
EXPRESSION = re.compile(r"([^<>=!]+)(<=|>=|!=|<|>|=)(.*)")
SORTED_BY = ("created", "seconds", "trial", "status")
FIELDS = ("trial", "status", "tag", "who", "since", "before")
FILTERS = (
    "Filters, all of which must hold: trial=wide,deep (or a pattern), status=failed,lost, tag=paper, "
    "who=ann, since=7d (or 12h, 2w, 2026-11-01), before=2026-12-01; settings such as "
    "optimizer.lr=1e-3,3e-4 or seed=0; metrics such as 'val/loss<0.3' (quoted, because of the "
    "shell)."
)


@dataclass(frozen=True)
class Filter:
    """A condition on runs; `key` is one of FIELDS, a metric or a setting, `sign` one of OPERATORS."""

    key: str
    sign: str
    value: str

    @cached_property
    def values(self) -> list[str]:
        """The values separated by commas, one of which must fit; a list in brackets is one value."""
        return [self.value] if self.value.startswith("[") else self.value.split(",")

    @cached_property
    def moment_unix_s(self) -> float:
        return typed_moment(self.value)

    def matches(self, row: Row) -> bool:
        """Whether the condition holds; on a metric or setting that the run lacks it never does."""
        match self.key:
            case "trial":
                return any(is_of_trial(row, pattern) for pattern in self.values)
            case "status":
                return row["status"] in self.values
            case "tag":
                return not set(self.values).isdisjoint(row["tags"])
            case "who":
                return row["who"] in self.values
            case "since":
                return recorded_moment(row["created"]) >= self.moment_unix_s
            case "before":
                return 0 < recorded_moment(row["created"]) < self.moment_unix_s
        value = row["metrics"].get(self.key, ABSENT)
        if value is ABSENT:
            value = value_of(row["settings"], self.key)
        if value is ABSENT:
            return False
        if self.sign in ORDERING:
            value = number(value)
            return is_number(value) and OPERATORS[self.sign](value, float(self.value))
        fits = any(equals(value, text) for text in self.values)
        return fits == (self.sign == "=")


def is_of_trial(row: Row, pattern: str) -> bool:
    """Whether a run is of this trial: `wide` has the variant `wide/lowlr` too; `w*` is a pattern."""
    family = row["trial"].partition("/")[0]
    return fnmatch(row["trial"], pattern) or family == pattern


def equals(value: Any, text: str) -> bool:
    """Whether a recorded value is what was typed: numbers by value, text also by a pattern."""
    if isinstance(value, str):
        # One may type a class, such as torch.optim.SGD, by its name alone
        return fnmatch(value, text) or value.rpartition(".")[2].lower() == text.lower()
    if is_number(value):
        return is_number_text(text.strip()) and float(text) == value
    lower = text.lower()
    try:
        typed = json.loads("null" if lower == "none" else lower)
    except ValueError:
        return False
    return type(typed) is type(value) and typed == value  # true is not 1


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse_filter(text: str) -> Filter:
    """The filter that a word of the command line means."""
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise LabError(
            f"{text!r} is no filter. Filters look like status=failed, tag=paper, "
            "optimizer.lr=1e-3 or 'val/loss<0.3'."
        )
    key, sign, value = (part.strip() for part in match.groups())
    wanted = Filter(key, sign, value)
    if key in FIELDS and sign != "=":
        raise LabError(f"{text!r}: {key} is compared with =; write {key}={value}")
    if key == "status":
        require_states(wanted.values)
    if key in ("since", "before"):
        typed_moment(value)
    if sign in ORDERING and (not is_number_text(value) or math.isnan(float(value))):
        raise LabError(f"{text!r}: {sign} compares numbers; write one, not {value!r}")
    return wanted


def require_states(states: list[str]) -> None:
    """Makes sure that there are such states."""
    for state in states:
        if state not in STATES:
            raise LabError(
                f"no status {state!r}{nearest(state, STATES)}. There are: {', '.join(STATES)}"
            )


def full_key(rows: list[Row], key: str) -> str:
    """The whole name of a setting of which the end was typed, as the headings of a list show it.

    So `width` is model.width, and `optimizer` is optimizer._target_, when no other name ends so. Any
    other key stays as it is.
    """
    if key in FIELDS or not rows or any(has_key(row, key) for row in rows):
        return key
    names = all_keys([row["settings"] for row in rows])
    ending = [name for name in names if is_end_of(key, name)]
    return ending[0] if len(ending) == 1 else key


def is_end_of(key: str, name: str) -> bool:
    """Whether `key` is the last part of the dotted name of a setting, or the last ones."""
    return f".{name.removesuffix('._target_')}".endswith(f".{key}")


def require_keys(rows: list[Row], keys: list[str], fields: Iterable[str]) -> None:
    """Makes sure that each key is a metric or setting of a run.

    Args:
        fields: other names that may be typed in this place, as advice.
    """
    for key in keys:
        if not rows or any(has_key(row, key) for row in rows):
            continue
        metrics = dict.fromkeys(name for row in rows for name in row["metrics"])
        settings = all_keys([row["settings"] for row in rows])
        inside = [name for name in settings if name.startswith(f"{key}.")]
        if inside:
            raise LabError(f"{key!r} is a section. Its settings: {', '.join(inside)}")
        ending = [name for name in settings if is_end_of(key, name)]
        advice = f"; did you mean: {' or '.join(ending[:3])}" if ending else ""
        names = [*fields, *metrics, *settings]
        raise LabError(
            f"no run has a metric or setting {key!r}{advice or nearest(key, names)}.\n"
            f"Metrics: {', '.join(metrics) or 'none'}. Settings: lab config trial=NAME"
        )


def has_key(row: Row, key: str) -> bool:
    return key in row["metrics"] or value_of(row["settings"], key) is not ABSENT


def filter_rows(rows: list[Row], filters: list[Filter]) -> list[Row]:
    """The rows on which every filter holds."""
    filters = [replace(wanted, key=full_key(rows, wanted.key)) for wanted in filters]
    require_keys(rows, [wanted.key for wanted in filters if wanted.key not in FIELDS], FIELDS)
    return [row for row in rows if all(wanted.matches(row) for wanted in filters)]


def none_of(rows: list[Row], filters: Iterable[Filter]) -> str:
    """Says that no run passes the filters, and which value is near one that no run has."""
    advice = filter(None, (near_value(rows, wanted) for wanted in filters))
    return f"none of {counted(len(rows), 'run')}{next(advice, '')}"


def near_value(rows: list[Row], wanted: Filter) -> str:
    """The end of a message, see `nearest`, for a value that no run has; else ""."""
    if wanted.sign != "=" or wanted.key in ("since", "before", "status"):
        return ""
    wanted = replace(wanted, key=full_key(rows, wanted.key))
    if any(wanted.matches(row) for row in rows):
        return ""
    values = {value for row in rows for value in values_of(row, wanted.key)}
    return nearest(wanted.value, sorted(values))


def values_of(row: Row, key: str) -> list[str]:
    """What one may type behind `key=` to have this run."""
    match key:
        case "trial":
            return [row["trial"], row["trial"].partition("/")[0]]
        case "tag":
            return row["tags"]
        case "who":
            return [row["who"] or ""]
    value = value_of(row["settings"], key)
    return [] if value is ABSENT else [str(value)]


def sort_rows(rows: list[Row], key: str | None) -> list[Row]:
    """Sorts rows that come newest first by `key`.

    A metric puts the best first (of `val/x:max` the highest), and runs that were evaluated on other
    samples below; a setting puts the smallest first. Runs without it come last.
    """
    if key in (None, "created"):
        return rows
    if key in ("trial", "status"):
        return sorted(rows, key=lambda row: row[key])
    if key == "seconds":
        return sorted(rows, key=lambda row: row["seconds"] or 0, reverse=True)
    key, mode = split_mode(key)
    key = full_key(rows, key)
    require_keys(rows, [key], SORTED_BY)
    if any(key in row["metrics"] for row in rows):
        mode = mode or require_mode(key, settings_of(rows), f"--sort {key}:max")
        best = rank_alike(rows, key, mode)
    else:
        having = [row for row in rows if has_key(row, key)]
        best = sorted(having, key=lambda row: sortable(value_of(row["settings"], key)))
    measured = {row["run_dir"] for row in best}
    return best + [row for row in rows if row["run_dir"] not in measured]


def rank_alike(rows: list[Row], metric: str, mode: str) -> list[Row]:
    """The runs with a metric: the best first of those that compare, then the others; says how many."""
    compared = alike([row for row in rows if is_number(row["metrics"].get(metric))], metric)
    if compared.remark:
        print(f"lab: below the others: {compared.remark}", file=sys.stderr)
    parts = (compared.rows, compared.other_samples, compared.other_data)
    return [row for part in parts for row in rank_by_metric(part, metric, mode)]


def sortable(value: Any) -> tuple[bool, float, str]:
    """Numbers by value, then everything else as text."""
    if is_number(value):
        return (False, value, "")
    return (True, 0.0, str(value))
