"""What the start of a job on many processes costs, and the packed environment in its place."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import distributions

from ...machine.counted import counted
from .plan import Plan, image_command

MANY = 8  # processes of a job
PACKED = "site.python=packed"


def cost_of_start(plan: Plan, n_opened: int = 0) -> list[str]:
    """How many files a job opens when it starts, and what to type instead; nothing for a small job.

    A job without a scheduler, or with its packages in one file, is fine as it is. So is one on the
    centre's Python, which no tar file holds.

    Args:
        n_opened: files of the environment that one process opens; 0: not measured.
    """
    n = plan.request.n_tasks
    if n < MANY or plan.site.scheduler == "local" or plan.site["python"] != "venv":
        return []
    where = f"{n} processes on {counted(plan.request.nodes, 'node')}"
    if n_opened:
        opens = f"each open {n_opened:,} files of {sys.prefix}: {n * n_opened:,} in all"
    else:
        opens = f"each open what they import of the {n_installed_files():,} files of {sys.prefix}"
    return [
        f"{where} {opens}.",
        "A shared disk is slow at that. Packed once, they are one file for each node to read:",
        f"  {image_command(plan.points[0].overrides, PACKED)}",
        f"  {same_command(PACKED)}",
    ]


def n_installed_files() -> int:
    """Files of all packages, as their RECORDs list them; what a disk of many files is not asked for."""
    return sum((each.read_text("RECORD") or "").count("\n") for each in distributions())


def same_command(setting: str) -> str:
    """The command that was typed, to be sent with a setting more."""
    words = sys.argv[1:]
    if words[:1] != ["submit"]:  # called from Python, or by another machine
        return f"lab submit … {setting}"
    place = words.index("--") if "--" in words else len(words)
    settings = [word for word in words[:place] if word != "--dry-run"]
    return shlex.join(["lab", *settings, setting, *words[place:]])
