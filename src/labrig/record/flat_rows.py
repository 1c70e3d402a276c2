"""Runs as a table for a notebook: plain values only, a column for each metric and setting."""

from __future__ import annotations

from typing import Any

from .cost import HOUR_S
from .differences import ABSENT
from .schema import Row
from .settings import differing_settings, value_of

FACTS = (
    "run_id",
    "trial",
    "status",
    "created",
    "who",
    "why",
    "parent",
    "seed",
    "init_from",
    "commit",
    "package_tree",
    "trial_tree",
    "device",
    "n_attempts",
    "seconds",
    "run_dir",
)


def flat_rows(rows: list[Row]) -> list[dict[str, Any]]:
    """A dict for each run: its facts, its metrics, and the settings that differ between the runs.

    A metric or setting that a run lacks is missing in its dict; pandas makes it NaN.
    """
    settings = [
        key for key in differing_settings([row["settings"] for row in rows]) if key not in FACTS
    ]
    return [flat_row(row, settings) for row in rows]


def flat_row(row: Row, settings: list[str]) -> dict[str, Any]:
    """One run; `settings` are the dotted keys to show."""
    facts = {key: row[key] for key in FACTS}
    facts["init_from"] = (row["init_from"] or {}).get("source")
    facts["gpu_hours"] = (row["gpu_seconds"] or 0) / HOUR_S
    facts["tags"] = ",".join(map(str, row["tags"]))
    values = {key: value_of(row["settings"], key) for key in settings}
    shown = {key: value for key, value in values.items() if value is not ABSENT}
    return facts | shown | row["metrics"]
