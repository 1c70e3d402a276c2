# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A cluster's profile: one YAML per site; conf/lab.yaml has every key with its default, whose type a value must have."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.check import Source, check_keys
from ..errors import LabError, nearest
from ..project import LAB, Project, read_yaml

NO_LIMIT = float("inf")
ENTRIES: dict[str, dict[str, Any]] = {  # of the lists of sections
    "resources": {"gpus": None, "max_nodes": NO_LIMIT, "queue": "", "options": []},
    "queues": {
        "name": "",
        "option": "",
        "max_h": NO_LIMIT,
        "max_gpus": NO_LIMIT,
        "max_submit": NO_LIMIT,
    },
}
CHOICES = {
    "scheduler": ("slurm", "pbs", "gridengine", "pjm", "local"),
    "launcher": ("srun", "mpirun", "mpiexec", "shell"),
    "python": ("venv", "module", "container"),
    "method": ("scontrol", "exit99", "resubmit", "none"),
}


@dataclass(frozen=True)
class Site:
    """One profile: `values` with every key, `text` as it stands in the file, for the record."""

    name: str
    path: Path
    text: str
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


def load_site(project: Project, name: str, values: dict[str, Any] | None = None) -> Site:
    """The profile `name`, from the first place of `project.site_directories` that has it; with `values` instead of
    the file's where a configuration has composed them.

    Raises:
        LabError: no such profile, or one that breaks the rules; the message names file and key.
    """
    path = project.site_file(name)
    values = read_yaml(path) if values is None else values
    return Site(name, path, path.read_text(encoding="utf-8"), checked(values, str(path)))


def checked(values: dict[str, Any], where: str) -> dict[str, Any]:
    """A profile with its defaults filled in.

    Raises:
        LabError: at the first key or value that may not be there.
    """
    defaults = read_yaml(LAB / "conf" / "lab.yaml")["site"]
    given = _without_nulls(values)
    check_keys(given, defaults, Source(where))
    profile = {
        key: default | given.get(key, {}) if isinstance(default, dict) else given.get(key, default)
        for key, default in defaults.items()
    }
    for key, default in ENTRIES.items():
        for i, entry in enumerate(profile[key]):
            if not isinstance(entry, dict):
                raise LabError(
                    f"{where}: {key}[{i}] must be a section with {', '.join(default)}, but it is {entry!r}"
                )
            check_keys(entry, default, Source(where), f"{key}[{i}].")
        profile[key] = [default | entry for entry in profile[key]]
    for key, allowed in CHOICES.items():
        if (value := (profile | profile["requeue"])[key]) not in allowed:
            raise LabError(
                f"{where}: {key} is {value!r}{nearest(str(value), allowed)}. It is one of {', '.join(allowed)}"
            )
    return profile


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def site_of_host(project: Project, host: str | None = None) -> str | None:
    """The site whose `login_hosts` match this machine's name, so that nobody has to type `site=` on its login node."""
    host = host or socket.getfqdn()
    for directory in project.site_directories:
        for path in sorted(directory.glob("*.yaml")):
            if any(
                re.fullmatch(pattern, host) for pattern in read_yaml(path).get("login_hosts") or []
            ):
                return path.stem
    return None


def account_of(site: Site) -> str | None:
    """The user's account at a site, from accounts.yaml in the user's configuration directory, never from a repository."""
    path = (
        Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "lab" / "accounts.yaml"
    )
    accounts = read_yaml(path) if path.is_file() else {}
    found = accounts.get(site.name) or accounts.get(
        site.name.rpartition("_")[0]
    )  # jean_zay serves jean_zay_h100
    return None if found is None else str(found)
