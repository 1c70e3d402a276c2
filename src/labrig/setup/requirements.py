"""What the project asks for: `dependencies`, the group `dev`, and what labrig needs for its extras.

labrig itself is not among them: bootstrap.py has installed it, from wherever it comes.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from typing import Any

from ..errors import LabError
from ..project import LIBRARY, PYPROJECT, Project, pin_in
from .installer import name_of

EXTRAS = re.compile(r"^[\w.-]+\s*\[([^\]]*)\]")
DEV = "dev"  # the group of `[dependency-groups]` with the tools


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
