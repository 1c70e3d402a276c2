"""`lab runs list`, `show`, `prune`, `lab` alone, and `runs()`, with the states that schedulers give."""

from __future__ import annotations

from typing import Any

from ...project import Project
from .job_states import job_state_of, job_words_of

# Each command imports only what it prints with: lists answer in a tenth of a second.


def list_command(project: Project, args: list[str]) -> None:
    from ...record.list.command import list_command as list_recorded

    list_recorded(project, args, job_state_of())


def show_command(project: Project, args: list[str]) -> None:
    from ...record.list.show import show_command as show_recorded

    show_recorded(project, args, job_state_of(), job_words_of())


def prune_command(project: Project, args: list[str]) -> None:
    from ...record.keep.prune import prune_command as prune_recorded

    prune_recorded(project, args, job_state_of())


def news_command(project: Project, args: list[str]) -> None:
    from ...record.list.news import news_command as news_recorded

    news_recorded(project, args, job_state_of())


def runs(*filters: str, project: Project | None = None) -> list[dict[str, Any]]:
    """The runs as a table, newest first: a dict for each, which pandas.DataFrame takes.

    Args:
        filters: as after `lab runs list`: "trial=wide", "status=finished", "val/loss<0.3".

    Returns:
        Facts such as run_id, trial, status, seed, commit, gpu_hours, run_dir; metrics by their
        names; the settings that differ between these runs by their dotted keys.

    Raises:
        LabError: a filter is not understood, or no run has what it names.
    """
    from ...record.list.filters import filter_rows, parse_filter
    from ...record.list.notebook import flat_rows
    from ...record.list.rows import read_rows
    from ...record.read.roots import run_roots

    project = project or Project.of_notebook()
    rows = read_rows(run_roots(project), job_state_of())
    return flat_rows(filter_rows(rows, [parse_filter(text) for text in filters]))
