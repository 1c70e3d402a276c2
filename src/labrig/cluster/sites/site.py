"""A cluster's profile, one YAML file: SiteSettings has every key, its default and meaning.

What is left of an allocation says the centre's own command. Who ran a job there stands in verified.yaml
next to accounts.yaml, which `lab site verify` writes: the profiles of the template stay as they are,
and a name of yours does not get into a repository.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from ...config.check import SettingsSource, check_keys
from ...config.setting import defaults_of, settings_of
from ...errors import Failed, LabError, nearest
from ...machine.text_formats import printable
from ...project import Project, read_yaml, user_config
from ...record.files.atomic import write_file
from ..schedulers import scheduler_names, scheduler_of
from ..schedulers.command import run_scheduler_command
from ..sections import JobSettings, Queue, Resource, SiteSettings

# What {names} in options of a job stand for, next to the keys of `job`; rules.py fills them in
FILLED_IN = (
    *("name", "nodes", "gpus", "tasks_per_node", "cpus_per_task", "n_tasks"),
    *("n_cores", "cores_per_node"),
    *("time", "time_min", "lead_s", "queue"),
)
OPTION_NAMES = (
    *FILLED_IN,
    *(each.name for each in fields(JobSettings)),
)
FILE = "verified.yaml"
PATIENCE_S = 10
MAX_LINES = 6


@dataclass(frozen=True)
class Site:
    """One profile.

    Args:
        text: of the file, for the record.
        values: every key of SiteSettings.
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
    """A profile with its defaults filled in; `file` is named in messages."""
    values = _without_nulls(values)
    defaults = defaults_of(SiteSettings)
    check_keys(values, defaults, SettingsSource(file, settings=settings_of(SiteSettings)))
    profile = _with_defaults(values, defaults)
    for key, entry_type in (("resources", Resource), ("queues", Queue)):
        _check_entries(profile[key], key, entry_type, file)
    _check_choice(profile["scheduler"], "scheduler", scheduler_names(), file)
    methods = scheduler_of(profile["scheduler"]).requeue_methods
    _check_choice(profile["requeue"]["method"], "requeue.method", methods, file)
    _check_names_in_options(profile, file)
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


def _check_entries(entries: list[Any], key: str, kind: type, file: str) -> None:
    """Checks each section of the list `key`, which has the keys of `kind`."""
    defaults = defaults_of(kind)
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise LabError(
                f"{file}: {key}[{i}] is {entry!r},"
                f" but it must be a section with {', '.join(defaults)}"
            )
        place = f"{key}[{i}]."
        check_keys(entry, defaults, SettingsSource(file, settings=settings_of(kind, place)), place)


def _check_choice(value: Any, key: str, choices: Sequence[str], file: str) -> None:
    """Checks a word of which the scheduler says what it may be."""
    if value not in choices:
        raise LabError(
            f"{file}: {key} is {value!r}{nearest(str(value), choices)}. "
            f"It must be one of {', '.join(choices)}"
        )


def _check_names_in_options(profile: dict[str, Any], file: str) -> None:
    """Refuses an option with a {name} that nothing fills in."""
    _check_names(profile["options"], "options", OPTION_NAMES, file)
    _check_names(profile["reservation"], "reservation", OPTION_NAMES, file)
    _check_names([profile["account"]["option"]], "account.option", ["account"], file)
    _check_names([profile["container"]["base"]], "container.base", ["python"], file)
    for i, resource in enumerate(profile["resources"]):
        _check_names(resource.get("options", []), f"resources[{i}].options", OPTION_NAMES, file)
    for i, queue in enumerate(profile["queues"]):
        _check_names([queue.get("option")], f"queues[{i}].option", ["queue"], file)


def _check_names(options: Sequence[str | None], key: str, known: Sequence[str], file: str) -> None:
    for option in options:
        try:
            names = [name for _, name, _, _ in Formatter().parse(option or "") if name is not None]
        except ValueError as error:
            raise LabError(
                f"{file}: {key} has {option!r}: {error}. A brace that stands for itself is written twice."
            ) from error
        for name in names:
            if name not in known:
                raise LabError(
                    f"{file}: {key} has {{{name}}} in {option!r}, which nothing fills in"
                    f"{nearest(name, known)}. There are: {', '.join(known)}"
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


@dataclass(frozen=True)
class Verification:
    """A job that ran at a site as the profile says.

    Args:
        day: in ISO 8601.
        level: what it had: "2 nodes, 4 GPUs each".
        profile: sha256 of the profile's text.
    """

    by: str
    day: str
    level: str
    run: str
    job: str
    profile: str


def verification_of(site: Site) -> Verification | None:
    """What `lab site verify` has written for a site; None where it never did."""
    path = user_file(FILE)
    if not path.is_file():
        return None
    entry = read_yaml(path).get(site.name)
    return Verification(**entry) if entry else None


def write_verification(site: Site, verification: Verification) -> None:
    """Puts the verification of a site in the place of an earlier one."""
    path = user_file(FILE)
    entries = read_yaml(path) if path.is_file() else {}
    entries[site.name] = asdict(verification)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, yaml.safe_dump(entries, sort_keys=True))


def hash_of_profile(site: Site) -> str:
    return hashlib.sha256(site.text.encode()).hexdigest()


def is_experimental(site: Site) -> bool:
    """Whether nobody has run this scheduler's job script, as far as is known here."""
    return scheduler_of(site.scheduler).experimental and verification_of(site) is None


def describe_trust(site: Site) -> str:
    """Who has run a job with this profile, in one line; or how to become the first."""
    verification = verification_of(site)
    if verification is None:
        return describe_shipped(site)
    text = f"verified by {verification.by} on {verification.day}: {verification.level}"
    if verification.profile == hash_of_profile(site):
        return text
    return f"{text}, with an earlier text of the profile; again: lab site verify site={site.name}"


def describe_shipped(site: Site) -> str:
    """What the profile itself says of it."""
    if site["verified"]:
        return f"verified: {site['verified']}"
    text = f"not verified; a job of one minute does it: lab site verify site={site.name}"
    if scheduler_of(site.scheduler).experimental:
        return f"experimental ({site.scheduler} was never run), {text}"
    return text


def print_balance(site: Site) -> None:
    """Prints what is left at the site; nothing where its profile names no command."""
    for line in balance_lines(site):
        print(f"balance: {line}", file=sys.stderr)


def balance_lines(site: Site) -> list[str]:
    """The lines of the profile's command that match its pattern, or one that says why not.

    Of a pattern with groups only the groups are shown.
    """
    rule = site["balance"]
    if not rule["command"]:
        return []
    try:
        answer = run_scheduler_command(*shlex.split(rule["command"]), timeout_s=PATIENCE_S)
        lines = matching_lines(answer, rule["pattern"] or r"\S")
    except Failed as error:
        return [f"not known: {printable(str(error).partition(chr(10))[0])}"]
    except (re.error, ValueError) as error:  # of the pattern, or an open quote in the command
        return [f"not known: {error}, in balance of {site.path}"]
    if not lines:
        reason = f"no line of {rule['command']} matches {rule['pattern']}"
        return [f"not known: {printable(reason)}"]
    return [printable(line) for line in lines[:MAX_LINES]]


def matching_lines(text: str, pattern: str) -> list[str]:
    matches = [(line, re.search(pattern, line)) for line in text.splitlines()]
    return [" ".join(match.groups("")) or line.strip() for line, match in matches if match]
