# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Where the environment lies, and making it: again when it was copied or moved."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from .process import PACKAGE, ROOT, say, stop


def environment_path():
    """`paths.environment` of conf/config.yaml, else of the site's profile, else .venv.

    LAB_ENVIRONMENT wins: `lab submit on=HOST` has an environment made for each lock file.
    """
    if os.environ.get("LAB_ENVIRONMENT"):
        return Path(os.environ["LAB_ENVIRONMENT"])
    config = (PACKAGE / "conf" / "config.yaml").read_text(encoding="utf-8")
    for text in (config, site_profile(config)):
        # lab.project reads YAML with a package that is not installed yet
        entry = re.search(r"^[ \t]+environment:[ \t]*['\"]?([^\s'\"#]+)", text, re.MULTILINE)
        if entry and entry[1] not in ("null", "~"):
            path = os.path.expandvars(entry[1].replace("${package}", PACKAGE.name))
            if "$" not in path:
                return ROOT / os.path.expanduser(path)
            say(
                f"paths.environment is {entry[1]}, but that variable is not set here. "
                "Using .venv instead"
            )
    return ROOT / ".venv"


def site_profile(config):
    """The text of the site's profile that `config` names in its defaults, or ""."""
    entry = r"^[ \t]*-[ \t]*(?:override[ \t]+)?/?site:[ \t]*([\w-]+)"
    site = re.search(entry, config, re.MULTILINE)
    if not site:
        return ""
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    shared = os.environ.get("LAB_SITE_PATH", "").split(os.pathsep)
    folders = [PACKAGE / "conf" / "site", config_home / "lab" / "site"]
    folders += [Path(os.path.expanduser(folder)) for folder in shared if folder]
    folders += [PACKAGE / "lab" / "conf" / "site"]
    for folder in folders:
        path = folder / f"{site[1]}.yaml"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""


def make_environment(environment, uv):
    """Makes an environment at `environment`, and `.venv` as a link to it when it lies elsewhere."""
    link = ROOT / ".venv"
    elsewhere = environment != link
    if link.is_symlink() and Path(os.readlink(str(link))) != environment:
        link.unlink()
    if elsewhere and link.exists() and not link.is_symlink():
        stop(
            f"paths.environment is {environment}, but .venv is a directory of its own. "
            f"Move it away: mv .venv ../{ROOT.name}-venv"
        )
    place = former_place(environment)
    if place:
        say(f"the environment was made for {place}, so its commands do not work here")
    if place or not (environment / "bin" / "python").exists():
        require_new_or_environment(environment)
        create_environment(environment, uv)
    if elsewhere and not link.exists():
        link.symlink_to(environment, target_is_directory=True)


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


def create_environment(environment, uv):
    say(f"making the environment {environment}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "venv"]
    if uv:
        command = [uv, "venv", "--quiet", "--python", sys.executable]
    failed = subprocess.call([*command, "--clear", str(environment)], cwd=str(ROOT))
    if failed:
        shutil.rmtree(str(environment), ignore_errors=True)
        stop(
            "the environment could not be made. On Debian: apt install python3-venv. Or install uv"
        )
