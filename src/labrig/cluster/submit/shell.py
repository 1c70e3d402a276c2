"""`lab shell`: an interactive shell on a node."""

from __future__ import annotations

import shlex
import subprocess

from ...config.overrides import SettingsParser
from ...errors import Refused
from ...project import Project
from ..schedulers import scheduler_of
from ..schedulers.command import current_job_id
from .plan import plan_submission


def shell_command(project: Project, args: list[str]) -> int:
    """Opens the shell; its exit code is the command's."""
    parser = SettingsParser(
        "lab shell", "An interactive shell on a node of the site, with job.* as for lab submit."
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command only")
    chosen = parser.read(args)
    plan = plan_submission(project, chosen.overrides, command=["bash"], is_shell=True)
    command = scheduler_of(plan.site.scheduler).shell_words(plan.request)
    print(shlex.join(command), flush=True)
    if chosen.dry_run:
        return 0
    job_id = current_job_id()
    if job_id is not None:
        raise Refused(
            f"this shell is inside job {job_id} already. Leave it first, or use the nodes you have."
        )
    return subprocess.run(command).returncode
