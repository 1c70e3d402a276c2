"""`lab submit`, here or with on=HOST."""

from __future__ import annotations

from ..cluster.submit.command import split_command
from ..cluster.submit.command import submit_command as submit_here
from ..project import Project

ON = "on="


def submit_command(project: Project, args: list[str]) -> None:
    """`lab submit`; with on=HOST on that host, with on=A,B where the job starts first."""
    settings, command = split_command(args)
    names = [word.removeprefix(ON) for word in settings if word.startswith(ON)]
    if not names:
        submit_here(project, args)
        return
    from .submit_to_hosts import (
        submit_to_hosts,  # reads data files, which a submission from here need not
    )

    settings = [word for word in settings if not word.startswith(ON)]
    submit_to_hosts(project, names[-1].split(","), settings, command)
