"""`lab logs`: of a run here, or of one that was sent to a host."""

from __future__ import annotations

from ..cluster.logs import logs_command as logs_here
from ..cluster.logs import logs_options
from ..project import Project
from .ask import Hosts
from .sent import find_elsewhere


def logs_command(project: Project, args: list[str]) -> int:
    """Prints what a run's job printed, wherever it runs.

    Raises:
        LabError: no such run, no log of it, or its host does not answer.
    """
    options = logs_options(args)
    sent_run = find_elsewhere(project, options.run)
    if sent_run is None:
        return logs_here(project, args)
    sent, run_id = sent_run
    words = ["logs", run_id]
    if options.follow:
        words.append("-f")
    if options.rank is not None:
        words += ["--rank", str(options.rank)]
    with Hosts(project) as hosts:
        return hosts.show(sent, *words)
