# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Filters and sorting of `lab runs list`: val/loss<0.1, trial=wide, status=failed."""

import operator
import re
from fnmatch import fnmatch

from ..errors import LabError, nearest
from .index import check_metric, ranked
from .status import STATES

OPERATORS = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip
EXPRESSION = re.compile(r"([^<>=!]+)(<=|>=|!=|<|>|=)(.*)")
FIELDS = ("trial", "status", "tag", "who", "since", "before")
FILTERS = """Filters, all of which must hold: trial=wide (or a pattern), status=failed,lost, tag=paper, who=ann,
since=2026-11-01, before=2026-12-01, and metrics such as 'val/loss<0.3' (quoted, because of the shell)."""


def parse_filter(text: str) -> tuple[str, str, str]:
    match = EXPRESSION.fullmatch(text)
    if not match:
        raise LabError(f"{text!r} is no filter. Filters look like status=failed or 'val/loss<0.3'.")
    key, sign, value = (part.strip() for part in match.groups())
    if key not in FIELDS:
        try:
            float(value)
        except ValueError as error:
            known = ", ".join(FIELDS)
            raise LabError(
                f"{text!r}: a metric is compared with a number, and {key!r} is none of {known}"
                + nearest(key, FIELDS)
            ) from error
    elif sign != "=":
        raise LabError(f"{text!r}: {key} is compared with =, for example {key}={value}")
    if key == "status":
        for state in value.split(","):
            if state not in STATES:
                raise LabError(
                    f"no status {state!r}{nearest(state, STATES)}. There are: {', '.join(STATES)}"
                )
    return key, sign, value


def matches(row: dict, key: str, sign: str, value: str) -> bool:
    """Whether one filter holds for a row; a metric that the run lacks never does."""
    match key:
        case "trial":
            return fnmatch(row["trial"], value) or row["trial"].partition("/")[0] == value
        case "status":
            return row["status"] in value.split(",")
        case "tag":
            return value in row["tags"]
        case "who":
            return row["who"] == value
        case "since":
            return (row["created"] or "") >= value
        case "before":
            return (row["created"] or "") < value
    measured = row["metrics"].get(key)
    return isinstance(measured, int | float) and OPERATORS[sign](measured, float(value))


def sort_runs(found: list[dict], key: str | None) -> list[dict]:
    """Newest first, or by `key`: metrics best first, runs without the value last."""
    if key in (None, "created"):
        return found
    if key in ("trial", "status"):
        return sorted(found, key=lambda row: row[key])
    if key == "seconds":
        return sorted(found, key=lambda row: -(row["seconds"] or 0))
    check_metric(found, key)
    best = ranked(found, key)
    there = {row["run_dir"] for row in best}
    return best + [row for row in found if row["run_dir"] not in there]
