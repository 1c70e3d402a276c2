"""Settings and options of groups: a name that goes keeps working for two releases."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import yaml

from .repository import ReleaseError, Repository

NAMES_LIVE = 2  # releases for which the old name of a setting keeps working
CONF = "src/labrig/conf"
RENAMED = f"{CONF}/renamed.yaml"
PROFILES = "site"  # a group whose files do not tell which settings there are


def check_settings(repository: Repository) -> list[str]:
    """Settings and options of the library at the last releases, against those of HEAD."""
    problems = [
        problem for tag in repository.tags[-NAMES_LIVE:] for problem in _check(repository, tag)
    ]
    return list(dict.fromkeys(problems))


def _check(repository: Repository, tag: str) -> list[str]:
    old, new = (_options(repository, ref) for ref in (tag, "HEAD"))
    aliases = renamed(repository)
    settings = _settings(new)
    problems = [
        f"the option {option} of {tag} is gone; name what takes its place\n"
        f"  in {RENAMED}: below options, {option}: GROUP/NAME"
        for option in old
        if option not in new and option not in aliases["options"]
    ]
    old_settings = _settings({option: old[option] for option in old if option in new})
    problems += [
        f"the setting {name} of {tag} is gone; name what takes its place\n"
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


def renamed(repository: Repository) -> dict[str, dict[str, str | None]]:
    """The old names that keep working."""
    aliases = _read(f"{RENAMED} of HEAD", repository.text("HEAD", RENAMED))
    return {section: aliases.get(section) or {} for section in ("settings", "options")}


def _options(repository: Repository, ref: str) -> dict[str, dict[str, Any]]:
    """The library's files of settings: "" is lab.yaml, optimizer/adamw an option of a group."""
    found = {}
    for path, content in repository.files(ref, CONF).items():
        name = path.removeprefix(f"{CONF}/")
        if PurePath(name).suffix == ".yaml" and path != RENAMED:
            option = "" if name == "lab.yaml" else name.removesuffix(".yaml")
            found[option] = _read(f"{path} of {ref}", content)
    return found


def _read(what: str, content: str | bytes | None) -> dict[str, Any]:
    try:
        return yaml.safe_load(content or "") or {}
    except yaml.YAMLError as error:
        raise ReleaseError(f"{what} is no YAML: {' '.join(str(error).split())}") from None


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
