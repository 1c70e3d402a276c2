"""pip, or uv in its place: what installs packages into the environment, and from where."""

from __future__ import annotations

import configparser
import os
import re
import sys
from pathlib import Path

from ..project import config_home


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
