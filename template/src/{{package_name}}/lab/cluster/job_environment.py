# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The environment of a job: modules, offline switches, home directory, the site's variables."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from .site import Site

# Libraries that read these use their caches only.
OFFLINE_SWITCHES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}


def job_environment(site: Site, scratch: Path) -> list[str]:
    """Shell lines for the job script."""
    lines = _module_lines(site["modules"])
    if not site["internet"]:
        switches = " ".join(f"{name}={value}" for name, value in OFFLINE_SWITCHES.items())
        lines.append(f"export {switches} # compute nodes have no internet")
    if not site["home_writable"]:
        home = shlex.quote(str(scratch / ".home"))
        lines.append(f"export HOME={home} # the real one cannot be written in jobs")
        lines.append('mkdir -p "$HOME"')
    for name, value in site["env"].items():
        lines.append(f"export {name}={shlex.quote(str(value))}")
    return lines


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
