# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`, `show`, `prune` and `lab` alone, with the states that schedulers give."""

from __future__ import annotations

from ..project import Project
from .job_states import job_state_of

# Each command imports only what it prints with: lists answer in a tenth of a second.


def list_command(project: Project, args: list[str]) -> None:
    from ..record.list import list_command as list_recorded

    list_recorded(project, args, job_state_of())


def show_command(project: Project, args: list[str]) -> None:
    from ..record.show import show_command as show_recorded

    show_recorded(project, args, job_state_of())


def prune_command(project: Project, args: list[str]) -> None:
    from ..record.prune import prune_command as prune_recorded

    prune_recorded(project, args, job_state_of())


def news_command(project: Project, args: list[str]) -> None:
    from ..record.news import news_command as news_recorded

    news_recorded(project, args, job_state_of())
