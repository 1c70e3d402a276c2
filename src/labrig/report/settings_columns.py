"""The settings of many runs as columns in which equal values are held once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..record.schema import Row
from ..record.settings import as_text, flat_settings, format_setting, is_without_result


@dataclass(frozen=True)
class SettingsColumns:
    """Settings of runs.

    Args:
        columns: for each that differs its distinct values, and which of them each run has; None
            where a run lacks it.
        common: those that all runs share.
    """

    columns: dict[str, dict[str, list]]
    common: dict[str, Any]


def gather_settings(rows: list[Row]) -> SettingsColumns:
    leaves = [flat_settings(row["settings"]) for row in rows]
    columns = {}
    common = {}
    for key in dict.fromkeys(key for settings in leaves for key in settings):
        places: dict[str, int] = {}
        values = []
        place_of_run: list[int | None] = []
        for settings in leaves:
            if key not in settings:
                place_of_run.append(None)
                continue
            value = settings[key]
            text = as_text(value)
            if text not in places:
                places[text] = len(values)
                values.append(shown_value(key, value))
            place_of_run.append(places[text])
        if len(values) == 1 and None not in place_of_run:
            common[key] = values[0]
        else:
            columns[key] = {"values": values, "of_run": place_of_run}
    return SettingsColumns(columns, common)


def shown_value(key: str, value: Any) -> Any:
    """A number as it is, so that it sorts; anything else as one would type it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return format_setting(key, value)


def same_but_seed(
    rows: list[Row], projects: list[str], settings: SettingsColumns, codes: dict[str, str]
) -> list[int]:
    """A number for each run; runs that differ in nothing but their seed have the same.

    A run without settings is alone.

    Args:
        codes: of the trials that ran with several, see `codes_of_rows`.
    """
    columns = [column["of_run"] for key, column in settings.columns.items() if changes_result(key)]
    numbers: dict[tuple, int] = {}
    groups = []
    for place, row in enumerate(rows):
        code = codes.get(row["run_dir"])
        identity = (projects[place], row["trial"], code, *(column[place] for column in columns))
        if not row["settings"]:
            identity = (row["run_dir"],)
        groups.append(numbers.setdefault(identity, len(numbers)))
    return groups


def changes_result(key: str) -> bool:
    """Whether a setting other than a seed can change the numbers of a run."""
    return key.rpartition(".")[2] != "seed" and not is_without_result(key)
