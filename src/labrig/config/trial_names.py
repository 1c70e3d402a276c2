"""Names of trials and variants, from their directories. Imports nothing slow."""

from __future__ import annotations

import re

from ..project import Project

TRIAL_NAME = re.compile(r"[a-z][a-z0-9_]*")


def trial_names(project: Project) -> list[str]:
    """The directories of trials/ that hold a config.yaml, sorted."""
    return sorted(path.parent.name for path in (project.source / "trials").glob("*/config.yaml"))


def variant_names(project: Project, trial: str) -> list[str]:
    """The other YAML files of a trial's directory, sorted."""
    names = {path.stem for path in (project.source / "trials" / trial).glob("*.yaml")}
    return sorted(names - {"config"})
