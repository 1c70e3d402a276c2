"""What installs packages into the environment, pip or uv in its place, and how the setup runs commands."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from ..project import config_home, this_project
from ..record.read.size import bytes_below, format_bytes

QUIET_S = 20.0  # between two lines about a long command


def run(*command: str | Path, fatal: bool = True, variables: dict[str, str] | None = None) -> bool:
    """Runs a command in the project; returns whether it succeeded.

    One that fails stops the setup, unless it is not `fatal`. A variable that is "" is removed.
    """
    words = [str(word) for word in command]
    environ = {name: value for name, value in (os.environ | (variables or {})).items() if value}
    with subprocess.Popen(words, cwd=this_project().root, env=environ) as process:
        failed = wait_for(process)
    if failed and fatal:
        stop(
            f"this command failed, its output is above:\n  {shlex.join(words)}\n"
            "Fix the cause, then type the same make again"
        )
    return not failed


def wait_for(process: subprocess.Popen) -> int:
    """The exit code of a command. Where it shows no bar, a line now and then says how far it is."""
    began_s = time.monotonic()
    while True:
        try:
            return process.wait(None if sys.stdout.isatty() else QUIET_S)
        except subprocess.TimeoutExpired:
            size = format_bytes(bytes_below(Path(sys.prefix)))
            say(f"{time.monotonic() - began_s:.0f} s; the environment has {size}")


def succeeds(*command: str) -> bool:
    null = subprocess.DEVNULL
    return subprocess.call(command, cwd=this_project().root, stdout=null, stderr=null) == 0


def base_python() -> str:
    """The Python that bootstrap.py was started with; else the one below this environment."""
    started_with = os.environ.get("LAB_PYTHON")
    return started_with or sys._base_executable  # type: ignore[attr-defined]


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


def stop(message: str) -> NoReturn:
    sys.exit(f"setup: {message}")


def pip_setting(name: str) -> str:
    """A setting of pip, such as `find-links`: of its variable, else of its files; "" without one."""
    variable = "PIP_" + name.upper().replace("-", "_")
    if os.environ.get(variable):
        return os.environ[variable]
    files = configparser.RawConfigParser()
    files.read(pip_files(), encoding="utf-8")
    for section in ("install", "global"):
        if files.has_option(section, name):
            return files.get(section, name)
    return ""


def pip_files() -> list[Path]:
    """The files of pip's settings; a later one wins."""
    own_file = os.environ.get("PIP_CONFIG_FILE", "")
    if own_file == os.devnull:  # pip then reads none
        return []
    files = [
        Path("/etc/pip.conf"),
        Path("/etc/xdg/pip/pip.conf"),
        Path(os.path.expanduser("~/.pip/pip.conf")),
        config_home() / "pip/pip.conf",
    ]
    return [*files, Path(own_file)] if own_file else files


CONSTRAINTS = os.environ.get("UV_CONSTRAINT") or os.environ.get("PIP_CONSTRAINT") or ""
FIND_LINKS = os.environ.get("UV_FIND_LINKS") or pip_setting("find-links")
WHEELS = FIND_LINKS.replace(",", " ").split()  # directories with wheels
PACKAGE_INDEX = pip_setting("index-url")  # "" is PyPI


def pip_command(environment: Path, uv: str | None, verb: str) -> list[str | Path]:
    """The words that begin `pip VERB` in the environment."""
    python = environment / "bin" / "python"
    if uv:
        return [uv, "pip", verb, "--python", python]
    return [python, "-m", "pip", verb]


def index_variables() -> dict[str, str]:
    """The variables with which uv looks for packages where pip does."""
    variables = {"UV_FIND_LINKS": " ".join(WHEELS)}
    if PACKAGE_INDEX and not (os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")):
        variables["UV_DEFAULT_INDEX"] = PACKAGE_INDEX
    return variables


def quiet() -> list[str]:
    """An installer shows its progress on a terminal only."""
    return [] if sys.stdout.isatty() else ["--quiet"]


def constraint_lines() -> list[str]:
    files = CONSTRAINTS.split()
    return [line for path in files for line in Path(path).read_text(encoding="utf-8").splitlines()]


def name_of(requirement: str) -> str:
    """The name of a requirement as PyPI writes it: `Scikit_Learn>=1.5` is `scikit-learn`."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
