# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Filters and sorting of `lab runs list`: val/loss<0.1, trial=wide, status=failed."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatch

from ..errors import LabError, nearest
from .ranking import rank_by_metric, require_metric
from .schema import Row
from .status import STATES

OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
EXPRESSION = re.compile(r"([^<>=!]+)(<=|>=|!=|<|>|=)(.*)")
FIELDS = ("trial", "status", "tag", "who", "since", "before")
FILTERS = (
    "Filters, all of which must hold: trial=wide (or a pattern), status=failed,lost, tag=paper, "
    "who=ann, since=2026-11-01, before=2026-12-01, and metrics such as 'val/loss<0.3' (quoted, "
    "because of the shell)."
)


@dataclass(frozen=True)
class Filter:
    """A condition on runs; `key` is one of FIELDS or a metric, `sign` one of OPERATORS."""

    key: str
    sign: str
    value: str

    @property
    def is_metric(self) -> bool:
        return self.key not in FIELDS

    def matches(self, row: Row) -> bool:
        """Whether the condition holds; on a metric that the run lacks it never does."""
        match self.key:
            case "trial":
                return fnmatch(row["trial"], self.value) or family_of(row) == self.value
            case "status":
                return row["status"] in self.value.split(",")
            case "tag":
                return self.value in row["tags"]
            case "who":
                return row["who"] == self.value
            case "since":
                return (row["created"] or "") >= self.value
            case "before":
                return (row["created"] or "") < self.value
        measured = row["metrics"].get(self.key)
        if not isinstance(measured, int | float):
            return False
        return OPERATORS[self.sign](measured, float(self.value))


def family_of(row: Row) -> str:
    """The trial without its variant: `wide` for `wide/lowlr`."""
    return row["trial"].partition("/")[0]


def parse_filter(text: str) -> Filter:
    """The filter that a word of the command line means.

    Raises:
        LabError: it is none, or it has an unknown name or status.
    """
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise LabError(f"{text!r} is no filter. Filters look like status=failed or 'val/loss<0.3'.")
    key, sign, value = (part.strip() for part in match.groups())
    wanted = Filter(key, sign, value)
    if wanted.is_metric:
        require_number(text, wanted)
    elif sign != "=":
        raise LabError(f"{text!r}: {key} is compared with =, for example {key}={value}")
    if key == "status":
        require_states(value.split(","))
    return wanted


def require_number(text: str, wanted: Filter) -> None:
    """A metric is compared with a number; without one, the key is probably a mistyped field.

    Raises:
        LabError: with the nearest field.
    """
    try:
        float(wanted.value)
    except ValueError as error:
        raise LabError(
            f"{text!r}: a metric is compared with a number, and {wanted.key!r} is none of "
            f"{', '.join(FIELDS)}{nearest(wanted.key, FIELDS)}"
        ) from error


def require_states(states: list[str]) -> None:
    """Makes sure that there are such states.

    Raises:
        LabError: with the nearest one.
    """
    for state in states:
        if state not in STATES:
            raise LabError(
                f"no status {state!r}{nearest(state, STATES)}. There are: {', '.join(STATES)}"
            )


def sort_rows(rows: list[Row], key: str | None) -> list[Row]:
    """Sorts rows that come newest first by `key`.

    A metric puts the best first, and runs without it last.

    Raises:
        LabError: `key` is a metric that no run has.
    """
    if key in (None, "created"):
        return rows
    if key in ("trial", "status"):
        return sorted(rows, key=lambda row: row[key])
    if key == "seconds":
        return sorted(rows, key=lambda row: row["seconds"] or 0, reverse=True)
    require_metric(rows, key)
    best = rank_by_metric(rows, key)
    measured = {row["run_dir"] for row in best}
    return best + [row for row in rows if row["run_dir"] not in measured]
