# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Making the environment: again when it was copied or moved, or when another Python is its base."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ..machine.caches import cache_variables
from .centre import made_on_this_python
from .process import ROOT, say, stop

OWNER = "lab-project.txt"  # in the environment: the project that it belongs to
CACHES = "lab-caches.sh"  # in the environment: variables of the caches, for the shell of `activate`


def make_environment(environment, uv, on_centre):
    """Makes an environment at `environment`, and `.venv` as a link to it when it lies elsewhere.

    Args:
        on_centre: whether it shall see the packages of the Python that runs this.
    """
    link = ROOT / ".venv"
    elsewhere = environment != link
    if link.is_symlink() and Path(os.readlink(str(link))) != environment:
        link.unlink()
    if elsewhere and link.exists() and not link.is_symlink():
        stop(
            f"paths.environment is {environment}, but .venv is a directory of its own. "
            f"Move it away: mv .venv ../{ROOT.name}-venv"
        )
    if elsewhere:
        require_own(environment)
    place = former_place(environment)
    if place:
        say(f"the environment was made for {place}, so its commands do not work here")
    is_there = (environment / "bin" / "python").exists()
    has_base = not on_centre or (is_there and made_on_this_python(environment))
    if place or not is_there or not has_base:
        require_new_or_environment(environment)
        create_environment(environment, uv, on_centre)
    (environment / OWNER).write_text(f"{ROOT}\n", encoding="utf-8")
    if elsewhere and not link.exists():
        link.symlink_to(environment, target_is_directory=True)


def require_own(environment):
    """Stops before the environment of another project is taken over: two may have one place."""
    owner = environment / OWNER
    if not owner.exists():
        return
    project = Path(owner.read_text(encoding="utf-8").strip())
    if project != ROOT and (project / "pyproject.toml").exists():
        stop(
            f"{environment} is the environment of {project}. For one of its own write into "
            f"src/*/conf/config.yaml:\npaths:\n  environment: {environment}-2"
        )


def lead_shell(environment, caches):
    """Lets `activate` lead the caches of other tools to `caches` too, such as those of `uv add`."""
    variables = cache_variables(caches)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    file = environment / CACHES
    file.write_text("".join(lines), encoding="utf-8")
    activate = environment / "bin" / "activate"
    text = activate.read_text(encoding="utf-8")
    line = f". {shlex.quote(str(file))}\n"
    if line not in text:
        activate.write_text(f"{text.rstrip()}\n{line}", encoding="utf-8")


def former_place(environment):
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


def require_new_or_environment(path):
    """Stops before a directory with something else in it is overwritten."""
    if not path.is_dir() or (path / "pyvenv.cfg").exists():
        return
    if os.listdir(str(path)):
        stop(
            f"{path} exists and is not a Python environment. "
            "Set paths.environment to a new directory"
        )


def create_environment(environment, uv, on_centre):
    say(f"making the environment {environment}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "venv"]
    if uv:
        command = [uv, "venv", "--quiet", "--python", sys.executable]
    if on_centre:
        command.append("--system-site-packages")
    failed = subprocess.call([*command, "--clear", str(environment)], cwd=str(ROOT))
    if failed:
        shutil.rmtree(str(environment), ignore_errors=True)
        stop(
            "the environment could not be made. On Debian: apt install python3-venv. Or install uv"
        )
