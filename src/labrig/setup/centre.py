"""`python: module` of a site: the environment is made on the Python and the torch of the centre."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from ..machine.command import output_of
from ..project import Project, read_yaml, site_of
from .installer import base_python, name_of, say, stop
from .torch_build import FAMILY

LIST_PACKAGES = """
import json
from importlib.metadata import distributions
named = [each for each in distributions() if each.metadata["Name"]]
print(json.dumps({each.metadata["Name"]: each.version for each in named}))
"""


def packages_of_centre(project: Project) -> dict[str, str] | None:
    """name -> version of each package of the centre's Python; None where the site has another one.

    Stops when the Python below the environment is not the centre's: its modules are not loaded.
    """
    file = project.site_file(site_of(read_yaml(project.source / "conf" / "config.yaml")))
    profile = read_yaml(file)
    if profile.get("python") != "module":
        return None
    python = base_python()
    listed = json.loads(output_of(python, "-I", "-c", LIST_PACKAGES) or "{}")
    packages = {name_of(name): version for name, version in listed.items()}
    if "torch" not in packages:
        modules = profile.get("modules") or {}
        stop(
            f"{python} has no torch. {file.stem} has `python: module`: load its modules, "
            f"then again: make setup PYTHON=python3\nIn {file}:\n  modules: {one_line(modules)}"
        )
    say(f"the packages of {python} are used, with torch {packages['torch']}")
    return packages


def one_line(value: Any) -> str:
    """A value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True).strip()


def kept_versions(packages: dict[str, str]) -> list[str]:
    """`name==version` of torch and what is built for it: those of the centre stay."""
    return [f"{name}=={packages[name]}" for name in FAMILY if name in packages]


def made_on_base_python(environment: Path) -> bool:
    """Whether an environment sees the packages of the Python that bootstrap.py was started with."""
    settings = {}
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        settings[name.strip()] = value.strip()
    if settings.get("include-system-site-packages") != "true":
        return False
    base = Path(os.path.realpath(base_python())).parent
    return os.path.realpath(settings.get("home", "")) == str(base)
