"""The hosts that `on=` names: hosts.yaml in the user's configuration directory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from ..config.check import Source, check_keys
from ..errors import LabError, nearest
from ..project import read_yaml, user_config


@dataclass(frozen=True)
class Host:
    """One entry of hosts.yaml.

    Args:
        path: the directory there in which each project gets a directory of its own name;
            $VARIABLES and ~ are those of the host.
        ssh: what is typed after `ssh`; "" is the name of the entry.
        site: of jobs that are sent there, unless site= is typed; "" is the project's.
        before: a shell command before each of ours, such as: module load python/3.12
    """

    name: str
    path: str
    ssh: str = ""
    site: str = ""
    before: str = ""

    @property
    def address(self) -> str:
        """What `ssh` connects to."""
        return self.ssh or self.name


def hosts_file() -> Path:
    return user_config() / "hosts.yaml"


def host_of(name: str) -> Host:
    """The entry of hosts.yaml with this name.

    Raises:
        LabError: there is none, or a key of it is unknown or missing.
    """
    file = hosts_file()
    if not name:
        raise LabError(f"on= names no host. Write the name of an entry of {file}: on=NAME")
    entries = read_yaml(file) if file.exists() else {}
    if name not in entries:
        listed = f". It has: {', '.join(entries)}" if entries else ""
        raise LabError(
            f"{file} has no host {name!r}{nearest(name, entries)}{listed}\n"
            f"Write what `ssh` calls it, and a large disk there, for example:\n"
            f"  {name}:\n"
            f"    path: $WORK/lab\n"
            f"    site: slurm"
        )
    entry = entries[name] or {}
    defaults = {field.name: "" for field in fields(Host) if field.name != "name"}
    check_keys(entry, defaults, Source(f"{file}, {name}"))
    if not entry.get("path"):
        raise LabError(f"{file}: {name} needs a line such as  path: $WORK/lab")
    return Host(name, **entry)
