"""The marks in a list of runs, for what its numbers do not show."""

from __future__ import annotations

from .schema import Row

CHANGED = "*"
SEVERAL = "+"
MISPLACED = "!"
MEANINGS = {
    MISPLACED: "its directory was renamed or copied",
    CHANGED: "attempts had other code, data or settings",
    SEVERAL: "several attempts",
}


def marks_of(rows: list[Row]) -> dict[str, str]:
    """The marks by run directory; most runs have none."""
    marks = {row["run_dir"]: mark_of(row) for row in rows}
    return {run_dir: mark for run_dir, mark in marks.items() if mark}


def mark_of(row: Row) -> str:
    """One character: the most important mark of a run; empty for most."""
    if row["renamed_from"] or row["is_copied"]:
        return MISPLACED
    if row["changes"]:
        return CHANGED
    if (row["n_attempts"] or 0) > 1:
        return SEVERAL
    return ""


def format_legend(marks: dict[str, str]) -> list[str]:
    """What the marks mean, a line each."""
    existing = set(marks.values())
    return [
        f"{mark} {text}: lab runs show RUN" for mark, text in MEANINGS.items() if mark in existing
    ]
