"""The hosts that `on=` names: hosts.yaml in the user's configuration directory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from ..config.check import SettingsSource, check_keys
from ..errors import LabError, nearest
from ..project import read_yaml, user_config
from ..record.files.forms import matches, problem_in

# They become words of commands here and there, and somebody may have copied them from a web page.
ADDRESS = matches(r"(?:(?!-)[\w.:@%/\[\]-]+)?", "a name or user@name, as after `ssh`")
PATH = matches(
    r"(?!-)(?:[^\x00-\x1f\x7f\"`$\\]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+",
    "a path, in which only $NAME and ~ are replaced",
)
SITE = matches(r"(?:(?!-)[\w.-]+)?", "the name of a site")
ONE_LINE = matches(r"[^\x00-\x08\x0a-\x1f\x7f]*", "a shell command on one line")


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

    name: Annotated[str, ADDRESS]
    path: Annotated[str, PATH]
    ssh: Annotated[str, ADDRESS] = ""
    site: Annotated[str, SITE] = ""
    before: Annotated[str, ONE_LINE] = ""

    @property
    def address(self) -> str:
        """What `ssh` connects to."""
        return self.ssh or self.name


def hosts_file() -> Path:
    return user_config() / "hosts.yaml"


def host_of(name: str) -> Host:
    """The entry of hosts.yaml with this name."""
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
    entry = {} if entries[name] is None else entries[name]
    if not isinstance(entry, dict):
        raise LabError(f"{file}: {name} needs lines below it, such as  path: $WORK/lab")
    defaults = {field.name: "" for field in fields(Host) if field.name != "name"}
    # Its keys are no settings of the library: `site` is a name here.
    check_keys(entry, defaults, SettingsSource(f"{file}, {name}", settings={}))
    if not entry.get("path"):
        raise LabError(f"{file}: {name} needs a line such as  path: $WORK/lab")
    problem = problem_in({"name": name, **entry}, Host)
    if problem:
        raise LabError(f"{file}, {name}: {problem}. Correct that line")
    return Host(name, **entry)
