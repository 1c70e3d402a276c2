# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab runs list`, `show`, `prune` and `lab` alone, with the states that schedulers give."""

from __future__ import annotations

from ..project import Project
from ..record.list import list_command as list_recorded
from ..record.news import news_command as news_recorded
from ..record.prune import prune_command as prune_recorded
from ..record.show import show_command as show_recorded
from .job_states import job_state_of


def list_command(project: Project, args: list[str]) -> None:
    list_recorded(project, args, job_state_of())


def show_command(project: Project, args: list[str]) -> None:
    show_recorded(project, args, job_state_of())


def prune_command(project: Project, args: list[str]) -> None:
    prune_recorded(project, args, job_state_of())


def news_command(project: Project, args: list[str]) -> None:
    news_recorded(project, args, job_state_of())
