"""Runs commands on a host of hosts.yaml by OpenSSH's own client, all over one connection."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Annotated

from ..config.check import SettingsSource, check_keys
from ..errors import Failed, LabError, nearest
from ..project import read_yaml, user_config
from ..record.files.forms import matches, problem_in

CANNOT_CONNECT = 255  # exit code of ssh when there is no connection, or it broke
# A dead network is noticed within 45 s. The master ends by itself when this process is killed.
MASTER = ("ControlMaster=yes", "ControlPersist=60", "ServerAliveInterval=15")
SESSION = ("ControlMaster=no", "BatchMode=yes")  # uses the master, and asks nobody a second time


MAX_OUTPUT_BYTES = 100_000_000  # of a command, whose output is kept in memory
MARK = "lab-remote "  # begins our lines of an output: a host may print others at each login


FOLDER = Path(__file__).parent / "host"
# They become words of commands here and there, and somebody may have copied them from a web page.
ADDRESS = matches(r"(?:(?!-)[\w.:@%/\[\]-]+)?", "a name or user@name, as after `ssh`")
PATH = matches(
    r"(?!-)(?:[^\x00-\x1f\x7f\"`$\\]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+",
    "a path, in which only $NAME and ~ are replaced",
)
SITE = matches(r"(?:(?!-)[\w.-]+)?", "the name of a site")
ONE_LINE = matches(r"[^\x00-\x08\x0a-\x1f\x7f]*", "a shell command on one line")


class Quoted(str):
    """Text that the shell may read as it is."""


Value = str | int | Path | list[str]


def host_script(name: str, /, **values: Value) -> str:
    """A file of host/ with its names filled in.

    Args:
        values: quoted for the shell, unless they are Quoted; a list becomes its words.
    """
    from ..cluster.submit.script import JobTemplate  # Hydra, which a listing does without

    text = (FOLDER / f"{name}.sh").read_text(encoding="utf-8")
    return JobTemplate(text.rstrip()).substitute({key: quote(each) for key, each in values.items()})


def quote(value: Value) -> str:
    if isinstance(value, Quoted):
        return value
    return shlex.join(value) if isinstance(value, list) else shlex.quote(str(value))


class LostConnection(Failed):
    """The connection broke, so nobody knows how far the command came."""


@dataclass(frozen=True)
class Connection:
    """A host, and the options with which `ssh` shares one connection to it."""

    host: Host
    options: tuple[str, ...]

    def run(self, script: str, stdin: bytes | IO[bytes] | None = None) -> str:
        """What a script for bash prints on the host; its errors are printed as they come.

        Args:
            stdin: what the command reads: bytes, or an open file.

        Raises:
            LostConnection: the connection broke.
            Failed: the command failed there, or printed too much.
        """
        with tempfile.TemporaryFile() as typed:
            if isinstance(stdin, bytes):
                typed.write(stdin)
                typed.seek(0)
                stdin = None
            with subprocess.Popen(
                self.command(script), stdin=stdin or typed, stdout=subprocess.PIPE
            ) as process:
                assert process.stdout is not None  # it is a pipe
                output = process.stdout.read(MAX_OUTPUT_BYTES)
                if process.stdout.read(1):
                    process.kill()
                    raise Failed(
                        f"{self.host.name} printed more than {MAX_OUTPUT_BYTES:,} bytes. "
                        f"Find out why with: ssh {self.host.address}"
                    )
        self.check(process.returncode)
        return output.decode(errors="replace")

    def answers(self, script: str, stdin: bytes | IO[bytes] | None = None) -> list[str]:
        """The lines that a command prints behind MARK; see `run`."""
        lines = self.run(script, stdin).splitlines()
        return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]

    def show(self, script: str) -> int:
        """Runs a script for bash whose output goes to this terminal; returns its exit code."""
        done = subprocess.run(self.command(script), stdin=subprocess.DEVNULL)
        if done.returncode == CANNOT_CONNECT:
            self.check(done.returncode)
        return done.returncode

    def command(self, script: str) -> list[str]:
        """The words of a command that runs a script for bash there, as after logging in."""
        if self.host.before:
            script = f"{self.host.before} && {{\n{script}\n}}"
        return ["ssh", *self.options, "--", self.host.address, f"bash -lc {shlex.quote(script)}"]

    def check(self, code: int) -> None:
        if code == CANNOT_CONNECT:
            raise LostConnection(
                f"the connection to {self.host.name} was lost. Type the same again"
            )
        if code:
            raise Failed(f"{self.host.name}: the command ended with code {code}; see above")


@contextmanager
def connect(host: Host) -> Iterator[Connection]:
    """One connection to a host, for all commands in the block.

    Questions for a password or a code are asked on the terminal, once. A connection that the user
    keeps open (ControlMaster in ~/.ssh/config) is used as it is.

    Raises:
        Failed: there is no connection.
    """
    if has_own_master(host):
        yield Connection(host, ())
        return
    with tempfile.TemporaryDirectory(prefix="lab-ssh-") as folder:
        socket = as_options([f"ControlPath={folder}/master"])
        master = ["ssh", *socket, *as_options(MASTER), "--", host.address, "true"]
        if subprocess.run(master, stdout=subprocess.DEVNULL).returncode:
            raise LostConnection(
                f"no connection to {host.name}. Find out why with: ssh {host.address} true"
            )
        try:
            yield Connection(host, (*socket, *as_options(SESSION)))
        finally:
            end = ["ssh", *socket, "-O", "exit", "--", host.address]
            subprocess.run(end, capture_output=True)


def has_own_master(host: Host) -> bool:
    """Whether the user's own settings keep a connection to the host open."""
    done = subprocess.run(["ssh", "-O", "check", "--", host.address], capture_output=True)
    return done.returncode == 0


def as_options(settings: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("-o", setting))


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
