# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`python: module` of a site: the environment is made on the Python and the torch of the centre."""

import os
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

from .installer import name_of
from .places import own_config, site_file
from .process import say, stop
from .torch_build import FAMILY


def packages_of_centre():
    """name -> version of each package of the centre's Python; None where the site has another one.

    Stops when this is not the centre's Python: its modules are not loaded.
    """
    profile = site_file(own_config())
    text = profile.read_text(encoding="utf-8") if profile else ""
    if profile is None or not re.search(r"^python:[ \t]*['\"]?module\b", text, re.MULTILINE):
        return None
    modules = re.search(r"^modules:.*$", text, re.MULTILINE)
    advice = (
        f"{profile.stem} has `python: module`: load its modules, then again: make setup PYTHON=python3\n"
        f"In {profile}:\n  {modules[0] if modules else 'modules: is missing'}"
    )
    if sys.prefix != sys.base_prefix:
        stop(
            f"{sys.prefix} is an environment, and one on top of it would not see its packages.\n"
            f"deactivate, then: {advice}"
        )
    named = [package for package in distributions() if package.metadata["Name"]]
    packages = {name_of(package.metadata["Name"]): package.version for package in named}
    if "torch" not in packages:
        stop(f"{sys.executable} has no torch. {advice}")
    say(f"the packages of {sys.base_prefix} are used, with torch {packages['torch']}")
    return packages


def kept_versions(packages):
    """`name==version` of torch and what is built for it: those of the centre stay."""
    return [f"{name}=={packages[name]}" for name in FAMILY if name in packages]


def made_on_this_python(environment):
    """Whether an environment sees the packages of the Python that runs this."""
    settings = {}
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        settings[name.strip()] = value.strip()
    if settings.get("include-system-site-packages") != "true":
        return False
    here = Path(os.path.realpath(sys.executable)).parent
    return os.path.realpath(settings.get("home", "")) == str(here)
