"""The environment of a job: modules, offline switches, home directory, caches, the site's variables."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ... import env
from ...machine.caches import cache_variables, own_cache_variables
from ..sites.site import Site

# Libraries that read these use their caches only.
OFFLINE_SWITCHES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}


def job_environment(site: Site, scratch: Path, caches: Path | None) -> list[str]:
    """Shell lines for the job script."""
    lines = _module_lines(site["modules"])
    if not site["internet"]:
        lines.append(f"export {_words(OFFLINE_SWITCHES)} # compute nodes have no internet")
    if not site["home_writable"]:
        lines.append(
            f"export {_words(job_home(site, scratch))} # the real one cannot be written in jobs"
        )
        lines.append('mkdir -p "$HOME"')
    if caches:
        lines.append(f"export {_words({env.CACHES: str(caches)})} # the caches of all tools")
    if own := own_cache_variables():
        lines.append(f"export {_words(own)} # as set where this was submitted")
    for name, value in site["env"].items():
        lines.append(f"export {_words({name: value})}")
    return lines


def places_in_job(site: Site, scratch: Path, caches: Path | None) -> dict[str, str]:
    """The variables that say where a job finds what was fetched for it."""
    return job_home(site, scratch) | cache_variables(caches) | own_cache_variables()


def job_home(site: Site, scratch: Path) -> dict[str, str]:
    """HOME where jobs cannot write the real one."""
    return {} if site["home_writable"] else {"HOME": str(scratch / ".home")}


def _words(variables: dict[str, Any]) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())


def _module_lines(modules: dict[str, Any]) -> list[str]:
    if not (modules["init"] or modules["purge"] or modules["load"]):
        return []
    init = shlex.quote(modules["init"] or "/etc/profile")
    lines = [
        "# shellcheck source=/dev/null",
        f"command -v module >/dev/null || source {init} # not a login shell",
    ]
    if modules["purge"]:
        lines.append("module purge")
    if modules["load"]:
        lines.append("module load " + shlex.join(modules["load"]))
    return lines
