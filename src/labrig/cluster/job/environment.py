"""The environment of a job: modules, offline switches, home directory, caches, the site's variables."""

from __future__ import annotations

import re
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
# What only a rank knows: which one it is, and on which node.
OF_A_RANK = re.compile(r"\$\{?(?:SLURM_(?:PROC|LOCAL|NODE)ID|OMPI_COMM_WORLD_\w+|PMI\w*_RANK)\b")


def job_environment(site: Site, scratch: Path, caches: Path | None) -> list[str]:
    """Shell lines for the job script."""
    lines = _module_lines(site["modules"])
    if not site["internet"]["jobs"]:
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
    lines += [export for export in _exports(site) if not OF_A_RANK.search(export)]
    return lines + site["prologue"]


def rank_environment(site: Site) -> list[str]:
    """Shell lines that each rank runs: the site's variables that differ between ranks."""
    return [export for export in _exports(site) if OF_A_RANK.search(export)]


def _exports(site: Site) -> list[str]:
    return [f"export {name}={_expandable(value)}" for name, value in site["env"].items()]


def _expandable(value: Any) -> str:
    """A word of the shell in which $NAME and ${NAME} are expanded, and nothing else is."""
    text = str(value)
    if "$" not in text:
        return shlex.quote(text)
    return '"' + re.sub(r'[\\`"]|\$(?![A-Za-z_{])', lambda match: "\\" + match[0], text) + '"'


def places_in_job(site: Site, scratch: Path, caches: Path | None) -> dict[str, str]:
    """The variables that say where a job finds what was fetched for it."""
    return job_home(site, scratch) | cache_variables(caches) | own_cache_variables()


def job_home(site: Site, scratch: Path) -> dict[str, str]:
    """HOME where jobs cannot write the real one."""
    return {} if site["home_writable"] else {"HOME": str(scratch / ".home")}


def _words(variables: dict[str, Any]) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())


def _module_lines(modules: dict[str, Any]) -> list[str]:
    if not any(modules.values()):
        return []
    init = shlex.quote(modules["init"] or "/etc/profile")
    lines = [
        "# shellcheck source=/dev/null",
        f"command -v module >/dev/null || source {init} # not a login shell",
    ]
    if modules["purge"]:
        lines.append("module purge")
    lines += [f"module use {_expandable(place)}" for place in modules["use"]]
    if modules["load"]:
        lines.append("module load " + shlex.join(modules["load"]))
    return lines
