"""Checks the files of a composition, in the order in which Hydra merges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..project import Project
from .check import NewKeys, SettingsSource, check_keys
from .defaults_list import ConfigFile, shown_path


@dataclass(frozen=True)
class FileValues:
    """What files hold together, for checking keys: `all` of them, and `lab`, those of labrig/conf."""

    all: dict[str, Any]
    lab: dict[str, Any]


def check_files(files: list[ConfigFile], project: Project, trial: str) -> FileValues:
    """Checks each file against those before it, and the trial's own files against all others."""
    values: dict[str, Any] = {}
    lab: dict[str, Any] = {}
    for file in sorted(files, key=lambda file: file.of_trial):
        if file.of_lab:
            lab = merge_sections(lab, file.values)
        else:
            source = SettingsSource(shown_path(file.path, project), trial, _new_keys(file), lab)
            check_keys(file.values, values, source)
        values = merge_sections(values, file.values)
    return FileValues(values, lab)


def _new_keys(file: ConfigFile) -> NewKeys:
    if file.of_trial:
        return NewKeys.NONE
    return NewKeys.ANY if file.package else NewKeys.OWN


def merge_sections(values: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """A copy of `values` with those of a later file, section by section."""
    merged = dict(values)
    for key, value in later.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge_sections(merged[key], value)
        else:
            merged[key] = value
    return merged
