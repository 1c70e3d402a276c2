"""Names of data sets, fields and splits: what YAML and the command line read as a name."""

import re

import yaml

from .errors import DataFileError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OTHER_NAMES = {
    "training": "train",
    "valid": "val",
    "validate": "val",
    "validation": "val",
    "dev": "val",
    "eval": "val",
    "testing": "test",
}
SPLIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def check_split_name(where: str, name: object) -> None:
    """Raises DataFileError unless `name` can be the name of a split: no slash, for example."""
    if not isinstance(name, str) or not SPLIT_NAME.fullmatch(name):
        raise DataFileError(
            f"{where}: {name!r} cannot name a split. Use letters, digits, _ and - only, such as train."
        )
    check_is_text(where, name, "split")


def check_usual_name(where: str, name: object) -> None:
    """Raises DataFileError when a split would never be read, too: trainings read train, val and test."""
    check_split_name(where, name)
    lower = str(name).lower()
    usual = OTHER_NAMES.get(lower, lower if lower in ("train", "val", "test") else name)
    if usual != name:
        raise DataFileError(f"{where}: trainings do not read the split {name!r}. Call it {usual}.")


def check_is_text(where: str, name: str, kind: str) -> None:
    """Raises DataFileError when YAML or the command line takes `name` for something else.

    Args:
        kind: what it names, to propose another name.
    """
    meaning = meaning_of(name)
    if meaning:
        raise DataFileError(
            f"{where}: YAML and the command line read {name!r} as {meaning}, not as a name. "
            f"Use another, such as {kind}_{name}."
        )


def meaning_of(name: str) -> str | None:
    """What `name` is read as in place of a text; None: as a text.

    PyYAML and Hydra differ: Hydra also knows TRUE in any letters, nan, inf and 1e3.
    """
    try:
        float(name)
    except ValueError:
        value = yaml.load(name.lower(), LOADER)
    else:
        return "a number"
    if isinstance(value, str):
        return None
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "a date"
