"""`make add PACKAGE=einops`: a package becomes a dependency of the project, and is installed."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager

from ..project import PYPROJECT, Project
from .installer import name_of
from .process import say, stop

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
