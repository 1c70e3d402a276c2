# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""A cluster's profile: one YAML per site, checked against the schema below; what it leaves out has a default here."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import LabError, nearest
from ..project import Project, read_yaml

MARKS = {"V": "run, or read in the source", "D": "documented", "U": "seen only in users' scripts", "?": "unconfirmed"}
TEXT, NUMBER, FLAG = (str, type(None)), (int, float, type(None)), (bool,)
SCHEMA: dict[str, Any] = {  # key -> types, or allowed values, or a nested schema; a list holds one entry's schema
    "scheduler": {"slurm", "pbs", "gridengine", "pjm", "local"},
    "internet": FLAG,  # whether jobs may use the network
    "paths": {"runs": TEXT, "checkpoints": TEXT, "data": [TEXT], "scratch": TEXT, "environment": TEXT},
    "node_local": TEXT,  # a disk of the node, a variable of the job; null: /dev/shm
    "home_writable": FLAG,  # whether jobs may write below $HOME
    "gpu": {"name": TEXT, "per_node": NUMBER, "memory_GB": NUMBER},
    "job": {"gpus": NUMBER, "time": TEXT, "cpus_per_task": NUMBER, "cpus_per_gpu": NUMBER, "mem_per_gpu": TEXT},
    "account": {"option": TEXT, "required": FLAG, "ask": TEXT},
    "resources": [{"gpus": (int, str), "max_nodes": NUMBER, "queue": TEXT, "options": [TEXT]}],
    "queues": [{"name": TEXT, "option": TEXT, "max_h": NUMBER, "max_gpus": NUMBER, "max_submit": NUMBER}],
    "options": [TEXT],  # scheduler options of every job
    "launcher": {"srun", "mpirun", "mpiexec", "shell"},
    "launcher_options": [TEXT],
    "python": {"venv", "module", "container"},
    "modules": {"init": TEXT, "purge": FLAG, "load": [TEXT]},
    "container": TEXT,  # command prefix, such as: apptainer exec --nv image.sif
    "env": dict,  # exported in the job; the only place for NCCL settings
    "requeue": {"method": {"scontrol", "exit99", "resubmit", "none"}, "lead_s": NUMBER, "max": NUMBER},
    "poll_s": NUMBER,  # the scheduler is asked no more often
    "login_hosts": [TEXT],  # regular expressions of login nodes' host names
    "cost": {"unit": TEXT, "per_gpu_hour": NUMBER},
    "sources": dict,  # name -> {url or what, seen}
    "confidence": dict,  # key of this file -> [mark, source]
    "verified": TEXT,  # who ran a job there, and when; null: nobody on the project
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "node_local": None,
    "home_writable": True,
    "gpu": None,
    "job": {},
    "account": None,
    "resources": [],
    "queues": [],
    "options": [],
    "launcher": "srun",
    "launcher_options": [],
    "python": "venv",
    "modules": None,
    "container": None,
    "env": {},
    "requeue": {"method": "none", "lead_s": 120, "max": 50},
    "poll_s": 30,
    "login_hosts": [],
    "cost": None,
    "sources": {},
    "confidence": {},
    "verified": None,
}
JOB_DEFAULTS = {"gpus": None, "time": "02:00:00", "cpus_per_task": None, "cpus_per_gpu": None, "mem_per_gpu": None}


@dataclass(frozen=True)
class Site:
    """One profile: `values` with every key of SCHEMA, `text` as it stands in the file, for the record."""

    name: str
    path: Path
    text: str
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def default_gpus(self) -> int:
        asked = self["job"]["gpus"]
        return int(asked) if asked is not None else int(self["gpu"] is not None)


def load_site(project: Project, name: str, values: dict[str, Any] | None = None) -> Site:
    """The profile `name`, from the first place of `project.site_directories` that has it; with `values` instead of
    the file's where a configuration has composed them.

    Raises:
        LabError: no such profile, or one that breaks the schema; the message names file and key.
    """
    path = project.site_file(name)
    values = read_yaml(path) if values is None else values
    check(values, SCHEMA, str(path))
    missing = [key for key in SCHEMA if key not in values and key not in DEFAULTS]
    if missing:
        raise LabError(f"{path} has no {', '.join(missing)}. See a shipped profile: lab site show slurm")
    merged = DEFAULTS | values
    merged["job"] = JOB_DEFAULTS | merged["job"]
    merged["requeue"] = DEFAULTS["requeue"] | merged["requeue"]
    return Site(name, path, path.read_text(encoding="utf-8"), merged)


def check(value: Any, schema: Any, where: str, key: str = "") -> None:
    """Compares a profile with SCHEMA, and raises a LabError at the first difference."""
    if isinstance(schema, dict) and value is not None:
        if not isinstance(value, dict):
            raise LabError(f"{where}: {key} must hold `key: value` lines with {', '.join(schema)}; it is {value!r}")
        for name, item in value.items():
            if name not in schema:
                raise LabError(
                    f"{where}: unknown key {key + str(name)!r}{nearest(str(name), schema)}. Keys: {', '.join(schema)}"
                )
            check(item, schema[name], where, f"{key}{name}.")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise LabError(f"{where}: {key[:-1]} must be a list; it is {value!r}")
        for i, item in enumerate(value):
            check(item, schema[0], where, f"{key[:-1]}[{i}].")
    elif isinstance(schema, set):
        if value not in schema:
            raise LabError(
                f"{where}: {key[:-1]} is {value!r}{nearest(str(value), schema)}. It is one of {', '.join(sorted(schema))}"
            )
    elif not isinstance(schema, dict) and not (
        isinstance(value, schema) and (bool in _flat(schema) or value is not True)
    ):
        names = ", ".join("null" if kind is type(None) else kind.__name__ for kind in _flat(schema))
        raise LabError(f"{where}: {key[:-1]} is {value!r}, which is not of the type it should be ({names})")


def _flat(schema: type | tuple[type, ...]) -> tuple[type, ...]:
    return schema if isinstance(schema, tuple) else (schema,)


def site_of_host(project: Project, host: str | None = None) -> str | None:
    """The site whose `login_hosts` match this machine's name, so that nobody has to type `site=` on its login node."""
    host = host or socket.getfqdn()
    for directory in project.site_directories:
        for path in sorted(directory.glob("*.yaml")):
            if any(re.fullmatch(pattern, host) for pattern in read_yaml(path).get("login_hosts") or []):
                return path.stem
    return None


def account_of(site: Site) -> str | None:
    """The user's account at a site, from accounts.yaml in the user's configuration directory, never from a repository."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    path = home / "lab" / "accounts.yaml"
    accounts = read_yaml(path) if path.is_file() else {}
    found = accounts.get(site.name) or accounts.get(site.name.rpartition("_")[0])  # jean_zay serves jean_zay_h100
    return None if found is None else str(found)


@cache
def words_of(scheduler: str) -> dict[str, Any]:
    """How a scheduler spells options, variables and reasons (job/schedulers.yaml)."""
    return read_yaml(Path(__file__).parent / "job" / "schedulers.yaml")[scheduler]
