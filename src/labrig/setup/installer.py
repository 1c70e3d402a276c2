"""What the project asks for, and what installs it into the environment: pip, or uv in its place.

labrig itself is not among them: bootstrap.py has installed it, from wherever it comes. `make add PACKAGE=einops`
adds to them.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path
from typing import Any, NoReturn

from ..errors import LabError
from ..project import LIBRARY, PYPROJECT, Project, config_home, pin_in, this_project
from ..record.read.used import bytes_below, format_bytes

QUIET_S = 20.0  # between two lines about a long command
EXTRAS = re.compile(r"^[\w.-]+\s*\[([^\]]*)\]")
DEV = "dev"  # the group of `[dependency-groups]` with the tools


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


def requirements_of(project: Project) -> list[str]:
    """Everything that is installed but labrig itself and the project."""
    text = (project.root / PYPROJECT).read_text(encoding="utf-8")
    content = tomllib.loads(text)
    section = content["project"]
    listed = [*section.get("dependencies", []), *group_of(content, DEV)]
    return resolved(listed, section, extras_seen=set())


def pin_of(project: Project) -> str:
    """The line of pyproject.toml that says which labrig it is, without extras."""
    pin = pin_in(project.root)
    if not pin:
        raise LabError(f"{PYPROJECT} names no labrig. Bring it back: git checkout -- {PYPROJECT}")
    return pin


def group_of(content: dict[str, Any], name: str) -> list[str]:
    """The requirements of a dependency group, and of those that it includes (PEP 735)."""
    listed = []
    for entry in content.get("dependency-groups", {}).get(name, []):
        if isinstance(entry, str):
            listed.append(entry)
        else:
            listed += group_of(content, entry["include-group"])
    return listed


def resolved(listed: list[str], section: dict[str, Any], extras_seen: set[str]) -> list[str]:
    """The list with the project's own extras, and with what labrig needs, in their place."""
    own_extras = section.get("optional-dependencies", {})
    requirements = []
    for entry in listed:
        extras = extras_of(entry)
        if name_of(entry) == name_of(section["name"]):
            for extra in extras - extras_seen:
                extras_seen.add(extra)
                requirements += resolved(own_extras.get(extra, []), section, extras_seen)
        elif name_of(entry) == LIBRARY.name:
            requirements += library_requirements(extras)
        else:
            requirements.append(entry)
    return list(dict.fromkeys(requirements))


def extras_of(requirement: str) -> set[str]:
    """`{"train", "sweep"}` of `labrig[train,sweep]==0.1`."""
    match = EXTRAS.match(requirement)
    return {extra.strip() for extra in match[1].split(",")} if match else set()


def library_requirements(extras: set[str]) -> list[str]:
    """What the installed labrig needs, for these extras too."""
    needed = []
    for line in requires(LIBRARY.name) or []:
        requirement, _, condition = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        if extra is None or extra[1] in extras:
            needed.append(requirement.strip())
    return needed


REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?([<>=~!@].*)?\Z")


def typed_requirements() -> list[str]:
    """The packages of PACKAGE="einops timm>=1 ours@git+https://…"."""
    requirements = os.environ.get("PACKAGE", "").split()
    if not requirements:
        stop('name a package: make add PACKAGE=einops, or make add PACKAGE="einops>=0.8 timm"')
    for requirement in requirements:
        if not REQUIREMENT.match(requirement):
            stop(
                f"{requirement!r} is no package. Write a name, a name with a version (einops>=0.8), or with"
                " an address (ours@git+https://git.example.org/ours, ours@file:///home/ann/ours)"
            )
    return requirements


@contextmanager
def added(project: Project, requirements: list[str]) -> Iterator[None]:
    """Writes requirements into `dependencies` for the block; takes them out again if it fails."""
    files = [project.root / name for name in (PYPROJECT, "uv.lock", "requirements.lock")]
    contents = {path: path.read_bytes() for path in files if path.exists()}
    new = write_requirements(project, requirements)
    try:
        yield
    except BaseException:
        for path, content in contents.items():
            path.write_bytes(content)
        if new:
            say(f"{' '.join(new)} was not added: pyproject.toml is as before")
        raise
    if new:
        say(f"added {' '.join(new)} to `dependencies` of pyproject.toml. Commit that file")


def write_requirements(project: Project, requirements: list[str]) -> list[str]:
    """Adds to `dependencies` what is not there yet; returns it."""
    file = project.root / PYPROJECT
    text = file.read_text(encoding="utf-8")
    listed = dependencies_of(text) or []
    names = {name_of(entry): entry for entry in listed}
    new = []
    for requirement in requirements:
        if name_of(requirement) in names:
            say(
                f"pyproject.toml has {names[name_of(requirement)]} already; to change it, edit it there"
            )
        else:
            new.append(requirement)
    if not new:
        return []
    for candidate in with_entries(text, new):
        if dependencies_of(candidate) == [*listed, *new]:
            file.write_text(candidate, encoding="utf-8")
            return new
    stop(
        "pyproject.toml has no list `dependencies` that this command can extend.\n"
        f"Add {', '.join(new)} to it by hand, then: make setup"
    )


def dependencies_of(text: str) -> list[str] | None:
    """The list `dependencies` of pyproject.toml; None when there is none, or the text is broken."""
    try:
        return tomllib.loads(text)["project"]["dependencies"]
    except (tomllib.TOMLDecodeError, KeyError):
        return None


def with_entries(text: str, new: list[str]) -> Iterator[str]:
    """pyproject.toml with new entries, for a list on several lines and for one on a single line."""
    lines = "".join(f'    "{requirement}",\n' for requirement in new)
    words = ", ".join(f'"{requirement}"' for requirement in new)
    several = r"(?ms)^(dependencies = \[\n.*?)^\]"
    yield re.sub(several, lambda match: f"{match[1]}{lines}]", text, count=1)
    without_comma = r"(?ms)^(dependencies = \[\n.*?)\n\]"
    yield re.sub(without_comma, lambda match: f"{match[1]},\n{lines}]", text, count=1)
    yield re.sub(
        r"(?m)^(dependencies = \[.+)\]$", lambda match: f"{match[1]}, {words}]", text, count=1
    )
    yield re.sub(r"(?m)^dependencies = \[\]$", f"dependencies = [{words}]", text, count=1)
