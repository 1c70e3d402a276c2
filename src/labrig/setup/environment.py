"""Where the environment lies: made again when it was moved, or belongs elsewhere.

With `python: module` of a site it is made on the Python and the torch of the centre.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml

from ..machine.caches import cache_variables
from ..machine.command import output_of
from ..project import OWNERS, Project, expand_path, owners_of, read_yaml, site_of
from .installer import base_python, name_of, say, stop
from .torch_build import FAMILY, chosen_build

CACHES = "lab-caches.sh"  # in the environment: variables of the caches, for the shell of `activate`
STAMPS = "lab-setup"  # in the environment: for each project, from what its packages were installed
LIST_PACKAGES = """
import json
from importlib.metadata import distributions
named = [each for each in distributions() if each.metadata["Name"]]
print(json.dumps({each.metadata["Name"]: each.version for each in named}))
"""


def configured_path(project: Project, key: str) -> Path | None:
    """`paths.KEY` of conf/config.yaml, else of the site's profile; None where neither has one.

    A path that names a variable which is not set here is named, and left out.
    """
    config = read_yaml(project.source / "conf" / "config.yaml")
    site = read_yaml(project.site_file(site_of(config)))
    for sections in (config, site):
        text = (sections.get("paths") or {}).get(key)
        if text is None:
            continue
        path = expand_path(text, project.root, project.package)
        if path is not None:
            return path
        instead = {
            "environment": "Using .venv instead",
            "caches": "Caches stay where each tool puts them",
        }[key]
        say(f"paths.{key} is {text}, but that variable is not set here. {instead}")
    return None


def move_to(project: Project, target: str, on_centre: bool) -> Path:
    """The place of the environment, once this process runs in the right one.

    Where it does not, the setup starts again there: LAB_ENVIRONMENT, else `paths.environment`, else
    .venv, which is a link to it when it lies elsewhere.

    Args:
        target: of make, to start again with.
        on_centre: whether it shall see the packages of the Python below it.
    """
    link = project.root / ".venv"
    typed = os.environ.get("LAB_ENVIRONMENT")
    environment = Path(typed) if typed else configured_path(project, "environment") or link
    running = Path(sys.prefix)
    is_here = environment.exists() and environment.samefile(running)
    place = former_place(environment)
    if place:
        say(f"the environment was made for {place}, so its commands do not work here")
    if not is_here or place or (on_centre and not made_on_base_python(environment)):
        require_new_or_environment(environment)
        if environment != link:
            remove_bootstrapped(link, environment)
        if is_here:
            require_nobody_else(environment, project)
        make_again(environment, target, anew=is_here, on_centre=on_centre)
    if environment != link and not link.exists():
        link.symlink_to(environment, target_is_directory=True)
    note_owner(environment, project)
    return environment


def former_place(environment: Path) -> str | None:
    """Where an environment that was copied or moved has been made; None for any other one.

    Its scripts and its `activate` hold that path.
    """
    activate = environment / "bin" / "activate"
    if not activate.exists():
        return None
    text = activate.read_text(encoding="utf-8", errors="replace")
    values = re.findall(r"^\s*(?:export )?VIRTUAL_ENV=(['\"]?/.*)$", text, re.MULTILINE)
    places = [shlex.split(value)[0] for value in values]
    if not places:  # a relocatable environment of uv
        return None
    if any(os.path.exists(place) and environment.samefile(place) for place in places):
        return None
    return places[0]


def require_new_or_environment(path: Path) -> None:
    """Stops before a directory with something else in it is overwritten."""
    if not path.is_dir() or (path / "pyvenv.cfg").exists():
        return
    if os.listdir(path):
        stop(
            f"{path} exists and is not a Python environment. "
            "Set paths.environment to a new directory"
        )


def require_nobody_else(environment: Path, project: Project) -> None:
    """Stops before an environment outside of the project is made anew that is not this project's alone."""
    if environment.resolve().is_relative_to(project.root.resolve()):
        return
    others = [owner for owner in owners_of(environment) if owner != project.root]
    reason = f"{others[0]} uses it too" if others else None
    if not (environment / OWNERS).exists():
        reason = "setup has not made it"
    if reason:
        stop(
            f"{environment} must be made again, and {reason}. "
            "Set paths.environment to a new directory, or delete this one yourself"
        )


def remove_bootstrapped(link: Path, environment: Path) -> None:
    """Makes room for the link `.venv`: a link to another place goes, and what bootstrap.py has just made.

    Stops where .venv is an environment that somebody uses.
    """
    if link.is_symlink():
        say(f".venv no longer leads to {os.readlink(link)}")
        link.unlink()
    elif (link / OWNERS).exists() and not owners_of(link):
        shutil.rmtree(link)
    elif link.exists():
        stop(
            f"paths.environment is {environment}, but .venv is a directory of its own. "
            f"Move it away: mv .venv ../{link.parent.name}-venv"
        )


def make_again(environment: Path, target: str, anew: bool, on_centre: bool) -> NoReturn:
    """Has bootstrap.py go on with another environment, of the same Python and the same build of torch."""
    python = base_python()
    build = chosen_build(Path(sys.prefix))
    if build:
        os.environ["TORCH"] = build
    if anew:
        say(f"deleting {environment}, to make it again")
        shutil.rmtree(environment)
    os.environ["LAB_ENVIRONMENT"] = str(environment)
    if on_centre:
        os.environ["LAB_SYSTEM_PACKAGES"] = "1"
    os.execv(python, [python, "tools/bootstrap.py", "setup", target])


def note_owner(environment: Path, project: Project) -> None:
    """Adds the project to those that use the environment, where it may be written."""
    owners = owners_of(environment)
    if project.root not in owners and os.access(environment, os.W_OK):
        lines = "".join(f"{root}\n" for root in [*owners, project.root])
        (environment / OWNERS).write_text(lines, encoding="utf-8")


def lead_shell(environment: Path, caches: Path | None) -> None:
    """Lets `activate` lead the caches of other tools to `caches` too, such as those of `uv add`."""
    if not os.access(environment, os.W_OK):
        return
    variables = cache_variables(caches)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    file = environment / CACHES
    file.write_text("".join(lines), encoding="utf-8")
    activate = environment / "bin" / "activate"
    text = activate.read_text(encoding="utf-8")
    line = f". {shlex.quote(str(file))}\n"
    if line not in text:
        activate.write_text(f"{text.rstrip()}\n{line}", encoding="utf-8")


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
