# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""What the configuration says about places, read without YAML: no package is installed yet."""

import os
import re
from pathlib import Path

from .process import PACKAGE, ROOT, say

EMPTY = ("null", "~")


def environment_path():
    """`paths.environment` of conf/config.yaml, else of the site's profile, else .venv.

    LAB_ENVIRONMENT wins: `lab submit on=HOST` has an environment made for each lock file.
    """
    if os.environ.get("LAB_ENVIRONMENT"):
        return Path(os.environ["LAB_ENVIRONMENT"])
    return configured_path("environment", "Using .venv instead") or ROOT / ".venv"


def caches_path():
    """`paths.caches`, from the same places; None without one."""
    return configured_path("caches", "Caches stay where each tool puts them")


def configured_path(key, instead):
    """A path of the section `paths`: it stands alone on its line. None where no file has it.

    Args:
        instead: what happens when it names a variable that is not set here.
    """
    config = own_config()
    for text in (config, site_profile(config)):
        entry = re.search(rf"^[ \t]+{key}:[ \t]*['\"]?([^\s'\"#]+)", text, re.MULTILINE)
        if not entry or entry[1] in EMPTY:
            continue
        path = os.path.expandvars(entry[1].replace("${package}", PACKAGE.name))
        if "$" not in path:
            return ROOT / os.path.expanduser(path)
        say(f"paths.{key} is {entry[1]}, but that variable is not set here. {instead}")
    return None


def own_config():
    """The text of conf/config.yaml."""
    return (PACKAGE / "conf" / "config.yaml").read_text(encoding="utf-8")


def site_profile(config):
    """The text of the site's profile that `config` names in its defaults, or ""."""
    path = site_file(config)
    return path.read_text(encoding="utf-8") if path else ""


def site_file(config):
    """The profile of the site that `config` names in its defaults; None without one."""
    entry = r"^[ \t]*-[ \t]*(?:override[ \t]+)?/?site:[ \t]*([\w-]+)"
    site = re.search(entry, config, re.MULTILINE)
    if not site:
        return None
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    shared = os.environ.get("LAB_SITE_PATH", "").split(os.pathsep)
    folders = [PACKAGE / "conf" / "site", config_home / "lab" / "site"]
    folders += [Path(os.path.expanduser(folder)) for folder in shared if folder]
    folders += [PACKAGE / "lab" / "conf" / "site"]
    paths = [folder / f"{site[1]}.yaml" for folder in folders]
    return next((path for path in paths if path.is_file()), None)
