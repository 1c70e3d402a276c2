# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The marks in a list of runs, for what its numbers do not show."""

from __future__ import annotations

from collections.abc import Iterable

from .schema import Row

CHANGED = "*"
SEVERAL = "+"
MISPLACED = "!"
MEANINGS = {
    MISPLACED: "its directory was renamed or copied",
    CHANGED: "attempts had other code, data or settings",
    SEVERAL: "several attempts",
}


def mark_of(row: Row) -> str:
    """One character: the most important mark of a run; empty for most."""
    if row["renamed_from"] or row.get("is_copied"):
        return MISPLACED
    if row["changes"]:
        return CHANGED
    if (row["n_attempts"] or 0) > 1:
        return SEVERAL
    return ""


def status_with_mark(row: Row) -> str:
    return f"{row['status']} {mark_of(row)}".rstrip()


def format_legend(rows: Iterable[Row]) -> list[str]:
    """What the marks of these rows mean, a line each."""
    marks = {mark_of(row) for row in rows}
    return [f"{mark} {text}: lab runs show RUN" for mark, text in MEANINGS.items() if mark in marks]
