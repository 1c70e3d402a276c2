"""Runs as a table for a notebook: plain values only, a column for each metric and setting."""

from __future__ import annotations

from typing import Any

from ...machine.text_formats import HOUR_S
from ...project import Project
from ..files.schema import Row
from ..read.fields import NOTEBOOK, names_shown
from ..read.filters import filter_rows, parse_filter
from ..read.roots import run_roots
from ..read.rows import read_rows
from ..read.settings import ABSENT, differing_settings, value_of
from ..read.status import job_state_of


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
