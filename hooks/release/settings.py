"""Settings and options of groups: a name that goes keeps working for two releases."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import yaml

from .projects import Files, Update

RENAMED = "lab/conf/renamed.yaml"
PROFILES = "site"  # a group whose files do not tell which settings there are


def check_settings(update: Update) -> list[str]:
    """Settings and options that a project of an earlier release has, against those of a new one."""
    old, new = (dict(_option_files(files)) for files in (update.before, update.fresh))
    aliases = renamed(update.fresh)
    settings = _settings(new)
    problems = [
        f"the option {option} of {update.tag} is gone; name what takes its place\n"
        f"  in {RENAMED}: below options, {option}: GROUP/NAME"
        for option in old
        if option not in new and option not in aliases["options"]
    ]
    old_settings = _settings({option: old[option] for option in old if option in new})
    problems += [
        f"the setting {name} of {update.tag} is gone; name what takes its place\n"
        f"  in {RENAMED}: below settings, {name}: NEW (or null)"
        for name in sorted(old_settings - settings - set(aliases["settings"]))
    ]
    for old_name, new_name in aliases["settings"].items():
        if old_name in settings:
            problems.append(f"{RENAMED} renames {old_name}, which is still a setting")
        if new_name is not None and new_name not in settings:
            problems.append(f"{RENAMED}: {new_name}, the new name of {old_name}, is no setting")
    return problems + [
        f"{RENAMED}: {option}, the new name of {old_name}, is no option"
        for old_name, option in aliases["options"].items()
        if option not in new
    ]


def renamed(files: Files) -> dict[str, dict[str, str | None]]:
    """lab/conf/renamed.yaml of a project."""
    content = next((files[path] for path in files if path.endswith(RENAMED)), b"")
    aliases = yaml.safe_load(content) or {}
    return {section: aliases.get(section) or {} for section in ("settings", "options")}


def _option_files(files: Files) -> list[tuple[str, dict[str, Any]]]:
    """The template's files of settings: "" is lab.yaml, optimizer/adamw an option of a group."""
    found = []
    for path, content in files.items():
        _, is_conf, name = path.partition("/lab/conf/")
        if is_conf and PurePath(name).suffix == ".yaml" and name != PurePath(RENAMED).name:
            option = "" if name == "lab.yaml" else name.removesuffix(".yaml")
            found.append((option, yaml.safe_load(content) or {}))
    return found


def _settings(options: dict[str, dict[str, Any]]) -> set[str]:
    """The dotted names of all settings."""
    names = set()
    for option, values in options.items():
        group = option.rpartition("/")[0]
        if group != PROFILES:
            names |= set(_dotted(values, f"{group}." if group else ""))
    return names


def _dotted(values: dict[str, Any], prefix: str) -> list[str]:
    names = []
    for key, value in values.items():
        if key == "defaults":
            continue
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += _dotted(value, f"{prefix}{key}.")
    return names
