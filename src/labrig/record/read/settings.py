"""The composed settings of runs: recorded as data, looked up by their dotted keys, compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...project import parse_yaml
from ..files.atomic import plain_json, read_text
from ..files.schema import RunRecord
from .attempt_files import AttemptFiles

# The differences of two nested dicts, a line each.

ABSENT = "absent"
DIGITS = (6, 9, 12, 17)  # significant; 17 tell all floats apart


def list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """`key: a -> b` for every leaf that differs; keys of inner dicts are joined with dots."""
    left = flatten(before)
    right = flatten(after)
    lines = []
    for key in {**left, **right}:
        old = left.get(key, ABSENT)
        new = right.get(key, ABSENT)
        if as_text(old) != as_text(new):
            lines.append(f"{key}: {' -> '.join(format_both(old, new))}")
    return lines


def format_both(old: Any, new: Any) -> tuple[str, str]:
    """Two different values as text; floats with 6 digits, or with as many as show the difference."""
    texts = ("", "")
    for digits in DIGITS:
        texts = (with_digits(old, digits), with_digits(new, digits))
        if texts[0] != texts[1]:
            break
    return texts


def with_digits(value: Any, digits: int) -> str:
    """A value as text, of which 1.0 is another than 1: of limit_train_batches it means all."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.{digits}g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested dict as `{"a.b": leaf}`. An empty dict is a leaf, and so is one with dots in its keys
    (init.prefix), which would be read as further keys.
    """
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value and "." not in "".join(map(str, value)):
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


UNLISTED = ("site",)  # the profile of a cluster, with its sources; longer than all the others
# Sections that change no number. Lists show them only when they are asked to.
NO_RESULT = (
    "package",
    "paths",
    "job",
    "logger",
    "log",
    "record",
    "checkpoint",
    "metrics",
    "notify",
    "profile",
    "budget",
    "data.search",
    "data.stage",
    "data.stored",
    "callbacks.sweep_pruning",  # of a point of a sweep that was not stopped
    "callbacks.pictures",
    "callbacks.lr_monitor",
)


def settings_of_yaml(text: str) -> dict[str, Any]:
    """A composed configuration as plain data; empty when it is none."""
    try:
        config = parse_yaml(text)
    except yaml.YAMLError:
        return {}
    if not isinstance(config, dict):
        return {}
    return settings_to_record(config)


def settings_to_record(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that run.json and lists show, in JSON's types."""
    return plain_json({key: value for key, value in config.items() if key not in UNLISTED})


def recorded_settings(
    record: RunRecord, run_dir: Path, attempts: list[AttemptFiles]
) -> dict[str, Any]:
    """The settings of a run; where an attempt was resumed with others, those of the last such."""
    for attempt in reversed(attempts):
        path = run_dir / "attempts" / str(attempt.n) / "config.yaml"
        if path.exists():
            return settings_of_file(path)
    if "settings" in record:
        return record["settings"]
    return settings_of_file(run_dir / "config.yaml")  # of a damaged record


def settings_of_file(path: Path) -> dict[str, Any]:
    """As `settings_of_yaml`; empty when the file is missing."""
    try:
        return settings_of_yaml(read_text(path))
    except FileNotFoundError:
        return {}


def value_of(settings: dict[str, Any], key: str) -> Any:
    """The value of a dotted key such as `optimizer.lr`; ABSENT when there is none.

    A section, which has settings in it, is no value.
    """
    value: Any = settings
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return ABSENT
        value = value[part]
    return ABSENT if isinstance(value, dict) and value else value


def flat_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their dotted keys. A section without settings is none."""
    return {key: value for key, value in flatten(settings).items() if value != {}}


def all_keys(several: list[dict[str, Any]]) -> list[str]:
    """The dotted keys of several runs' settings, each once."""
    distinct = distinct_objects(several)
    keys: dict[str, None] = {}
    for name in section_names(distinct):
        for section in distinct_objects([settings.get(name) for settings in distinct]):
            keys |= dict.fromkeys(flatten({name: section}))
    return list(keys)


def differing_settings(several: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The keys whose values differ between runs, with the value of each run as text.

    A run that lacks the key has "". Settings of NO_RESULT are left out. Of keys that differ in the
    same way, such as seed and data.seed, the first with the fewest dots counts.
    """
    distinct = distinct_objects(several)
    differing = []
    for name in section_names(distinct):
        sections = [settings.get(name) for settings in distinct]
        leaves = {
            id(section): flat_settings({name: section}) for section in distinct_objects(sections)
        }
        for key in dict.fromkeys(key for part in leaves.values() for key in part):
            texts = {part_id: as_text(part.get(key, ABSENT)) for part_id, part in leaves.items()}
            if len(set(texts.values())) > 1 and not is_without_result(key):
                differing.append((key, tuple(texts[id(section)] for section in sections)))
    differing.sort(key=lambda entry: entry[0].count("."))
    keys: dict[tuple[str, ...], str] = {}
    for key, values in differing:
        keys.setdefault(values, key)
    place = {id(settings): place for place, settings in enumerate(distinct)}
    places = [place[id(settings)] for settings in several]
    return {key: [values[place] for place in places] for values, key in keys.items()}


def distinct_objects(objects: list[Any]) -> list[Any]:
    """Each object once, by its identity: the cache shares equal settings and sections of runs."""
    return list({id(each): each for each in objects}.values())


def section_names(several: list[dict[str, Any]]) -> list[str]:
    return list({name: None for settings in several for name in settings})


def is_without_result(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in NO_RESULT)


def as_text(value: Any) -> str:
    """A value as JSON, in which 1, 1.0 and true are three; "" for ABSENT."""
    if value is ABSENT:
        return ""
    if type(value) is int:  # quickly, for the seeds of many runs
        return str(value)
    return json.dumps(value, default=str)


def format_setting(key: str, value: Any) -> str:
    """A value as one would type it; of a class the last part of its name."""
    if value is ABSENT:
        return "-"
    if isinstance(value, float):
        return with_digits(value, DIGITS[0])
    if isinstance(value, str):
        return value.rpartition(".")[2] if key.endswith("_target_") else value
    return json.dumps(value, separators=(",", ":"), default=str)
