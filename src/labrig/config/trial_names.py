"""Names of trials and variants, from their directories, and of trials that are gone. Imports nothing slow.

TRIALS.md in the project says which were dropped and which were renamed. `lab trials` writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..project import Project, this_project

TRIAL_NAME = re.compile(r"[a-z][a-z0-9_]*")
PAGE = "TRIALS.md"
LINE = re.compile(r"^- (\d{4}-\d\d-\d\d) (dropped|renamed) `([a-z]\w*)` (?:at|to) `(\w+)`", re.M)


def trial_names(project: Project) -> list[str]:
    """The directories of trials/ that hold a config.yaml, sorted."""
    return sorted(path.parent.name for path in (project.source / "trials").glob("*/config.yaml"))


def variant_names(project: Project, trial: str) -> list[str]:
    """The other YAML files of a trial's directory, sorted."""
    names = {path.stem for path in (project.source / "trials" / trial).glob("*.yaml")}
    return sorted(names - {"config"})


@dataclass(frozen=True)
class GoneTrial:
    """A line of TRIALS.md: one of `commit` and `new_name` is None."""

    name: str
    date: str  # YYYY-MM-DD
    commit: str | None  # the last one that has a dropped trial
    new_name: str | None


def gone_trials(page: Path | None = None) -> dict[str, GoneTrial]:
    """The lines of TRIALS.md by the trial's name; of two with one name the later counts.

    Args:
        page: the file (default: that of the project of this code).
    """
    try:
        text = (page or default_page()).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    gone = {}
    for date, verb, name, target in LINE.findall(text):
        was_dropped = verb == "dropped"
        gone[name] = GoneTrial(
            name=name,
            date=date,
            commit=target if was_dropped else None,
            new_name=None if was_dropped else target,
        )
    return gone


def what_became_of(trial: str, page: Path, trials: Path) -> str:
    """The end of a message about a trial that is gone, "; it was renamed: wider"; else "".

    Args:
        trials: the directory of the trials.
    """
    gone = gone_trials(page)
    name = current_names(gone, trials).get(trial, trial)
    if name != trial and (trials / name).is_dir():
        return f"; it was renamed: {name}"
    if name in gone and gone[name].commit:
        return f"; it was dropped on {gone[name].date}. To bring it back: lab trials restore {name}"
    return ""


def default_page() -> Path:
    """TRIALS.md of the project whose code this is; of frozen code, that of the live project."""
    return this_project().root / PAGE


def name_of_today(trial: str) -> str:
    """The name of a trial, or of trial/variant, after the renames in TRIALS.md."""
    family, slash, variant = trial.partition("/")
    names = current_names(gone_trials(), this_project().source / "trials")
    return names.get(family, family) + slash + variant


def current_names(gone: dict[str, GoneTrial], trials: Path) -> dict[str, str]:
    """The name of today for each old name of a renamed trial; renames of renames are followed.

    Args:
        trials: the directory of the trials. A name that exists there means that trial.
    """
    names = {}
    for old in gone:
        name = old
        passed = set()
        while name in gone and gone[name].new_name and name not in passed:
            passed.add(name)
            if (trials / name).is_dir():
                break
            name = gone[name].new_name
        if name != old:
            names[old] = name
    return names
