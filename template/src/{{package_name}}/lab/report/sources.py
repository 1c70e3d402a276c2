# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Whose runs a report shows: this project's, and those of other people or projects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import LabError
from ..project import Project
from ..record.index import run_directories


@dataclass(frozen=True)
class Source:
    """A directory of runs."""

    name: str  # of its project, in the report
    runs: Path


def list_sources(project: Project, directories: list[Path]) -> list[Source]:
    """This project's runs, then those of `directories`, each once and under a name of its own.

    Args:
        directories: projects, or their directories of runs.

    Raises:
        LabError: one of them has no runs.
    """
    sources = {project.paths.runs.resolve(): Source(project.root.name, project.paths.runs)}
    for directory in directories:
        source = source_of(directory)
        sources.setdefault(source.runs, source)
    return name_apart(list(sources.values()))


def source_of(directory: Path) -> Source:
    """The runs in a project, or in a directory of runs.

    Raises:
        LabError: there are none.
    """
    directory = directory.resolve()
    for runs in (directory / "runs", directory):
        if next(run_directories(runs), None):
            name = runs.parent.name if runs.name == "runs" else runs.name
            return Source(name, runs)
    raise LabError(
        f"no runs in {directory}. --runs takes projects, or directories such as PROJECT/runs."
    )


def name_apart(sources: list[Source]) -> list[Source]:
    """The sources; where several have one name, each with the directory around its project."""
    n_with_name = Counter(source.name for source in sources)
    return [
        source
        if n_with_name[source.name] == 1
        else replace(source, name=f"{source.runs.parent.parent.name}/{source.name}")
        for source in sources
    ]
