"""A cluster's profile, one YAML file: conf/lab.yaml has every key, its default and meaning."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..config.check import Source, check_keys
from ..errors import LabError, nearest
from ..project import CONF, Project, read_yaml, user_config
from .schedulers import scheduler_names, scheduler_of

NO_LIMIT = float("inf")
CHOICES = {
    "launcher": ("srun", "mpirun", "mpiexec", "shell"),
    "python": ("venv", "module", "packed", "container"),
    "container.tool": ("apptainer", "singularity", "pyxis"),
}
USES = ("jobs", "shells", "asked")  # of a queue


@dataclass(frozen=True)
class Resource:
    """A resource type of a site.

    Args:
        gpus: per node; a number, or "any" for one or more.
        queue: that has it, or a list of those; None where every queue does.
    """

    gpus: int | str | None = None
    max_nodes: float = NO_LIMIT
    queue: str | list[str] | None = None
    options: list[str] = field(default_factory=list)

    @property
    def queues(self) -> list[str]:
        """The names of the queues that have it; none where every queue does."""
        return [self.queue] if isinstance(self.queue, str) else list(self.queue or [])


@dataclass(frozen=True)
class Queue:
    """A queue, the option that chooses it, and its limits.

    Args:
        max_h: hours of a job.
        max_gpus, max_nodes: of a job.
        max_submit: jobs of a user that may be queued at once.
        use: "jobs"; "shells" only those of `lab shell`; "asked" only jobs that name the queue.
        account: whether its jobs name one, where the site wants it.
    """

    name: str = ""
    option: str = ""
    max_h: float = NO_LIMIT
    max_gpus: float = NO_LIMIT
    max_nodes: float = NO_LIMIT
    max_submit: float = NO_LIMIT
    use: str = "jobs"
    account: bool = True


@dataclass(frozen=True)
class Site:
    """One profile.

    Args:
        text: of the file, for the record.
        values: every key of the section `site` of conf/lab.yaml.
    """

    name: str
    path: Path
    text: str
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def scheduler(self) -> str:
        """Its name: one of `scheduler_names()`."""
        return self.values["scheduler"]

    @property
    def gpus_per_node(self) -> float:
        """GPUs of one node; infinite where the profile does not say."""
        return self.values["gpu"]["per_node"]

    @property
    def resources(self) -> list[Resource]:
        return [Resource(**entry) for entry in self.values["resources"]]

    @property
    def queues(self) -> list[Queue]:
        return [Queue(**entry) for entry in self.values["queues"]]


def load_site(project: Project, name: str, values: dict[str, Any] | None = None) -> Site:
    """The profile `name`, from the first place of `project.site_directories` that has it.

    Args:
        values: the composed section `site` of a configuration; None: the values in the file.

    Raises:
        LabError: there is no such profile, or it breaks the rules; the message names file and key.
    """
    path = project.site_file(name)
    if values is None:
        values = read_yaml(path)
    return Site(name, path, path.read_text(encoding="utf-8"), check_profile(values, str(path)))


def check_profile(values: dict[str, Any], file: str) -> dict[str, Any]:
    """A profile with its defaults filled in; `file` is named in messages.

    Raises:
        LabError: at the first key or value that is not allowed.
    """
    values = _without_nulls(values)
    defaults = read_yaml(CONF / "lab.yaml")["site"]
    check_keys(values, defaults, Source(file))
    profile = _with_defaults(values, defaults)
    for key, entry_type in (("resources", Resource), ("queues", Queue)):
        _check_entries(profile[key], key, asdict(entry_type()), file)
    _check_choice(profile, "scheduler", scheduler_names(), file)
    methods = scheduler_of(profile["scheduler"]).requeue_methods
    _check_choice(profile, "requeue.method", methods, file)
    for key, choices in CHOICES.items():
        _check_choice(profile, key, choices, file)
    for i, queue in enumerate(profile["queues"]):
        _check_choice(queue, "use", USES, f"{file}: queues[{i}]")
    return profile


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _with_defaults(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    profile = defaults | values
    for key, default in defaults.items():
        if isinstance(default, dict):
            profile[key] = default | values.get(key, {})
    return profile


def _check_entries(entries: list[Any], key: str, defaults: dict[str, Any], file: str) -> None:
    """Checks each section of the list `key`."""
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise LabError(
                f"{file}: {key}[{i}] is {entry!r},"
                f" but it must be a section with {', '.join(defaults)}"
            )
        check_keys(entry, defaults, Source(file), f"{key}[{i}].")


def _check_choice(profile: dict[str, Any], key: str, choices: Sequence[str], file: str) -> None:
    value: Any = profile
    for part in key.split("."):
        value = value.get(part, choices[0])
    if value not in choices:
        raise LabError(
            f"{file}: {key} is {value!r}{nearest(str(value), choices)}. "
            f"It must be one of {', '.join(choices)}"
        )


def site_of_host(project: Project, host: str | None = None) -> str | None:
    """The site whose `login_hosts` match this machine, so that its users need not type `site=`."""
    host = host or socket.getfqdn()
    for directory in project.site_directories:
        for path in sorted(directory.glob("*.yaml")):
            patterns = read_yaml(path).get("login_hosts") or []
            if any(re.fullmatch(pattern, host) for pattern in patterns):
                return path.stem
    return None


def user_file(name: str) -> Path:
    """A file in the user's configuration directory, ~/.config/lab; it may not exist."""
    return user_config() / name


def account_of(site: Site) -> str | None:
    """The user's account at a site.

    It is read from accounts.yaml in the user's configuration directory, never from a repository.
    """
    path = user_file("accounts.yaml")
    if not path.is_file():
        return None
    accounts = read_yaml(path)
    # an entry jean_zay serves jean_zay_h100 too
    account = accounts.get(site.name) or accounts.get(site.name.rpartition("_")[0])
    return None if account is None else str(account)
