"""Whose runs a report shows: this project's, and those of other people or projects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import LabError
from ..project import Project
from ..record.read.roots import run_roots
from ..record.read.rows import run_directories


@dataclass(frozen=True)
class RunsSource:
    """The runs of one project."""

    name: str  # in the report
    roots: list[Path]  # directories of runs


def list_sources(project: Project, directories: list[Path]) -> list[RunsSource]:
    """This project's runs, then those of `directories`, each once and under a name of its own.

    Args:
        directories: projects, or their directories of runs.
    """
    of_project = RunsSource(project.root.name, run_roots(project))
    own_roots = {root.resolve() for root in of_project.roots}
    others = {source.roots[0]: source for source in map(source_of, directories)}
    further = [source for root, source in others.items() if root not in own_roots]
    return name_apart([of_project, *further])


def source_of(directory: Path) -> RunsSource:
    """The runs in a project, or in a directory of runs."""
    directory = directory.resolve()
    for runs in (directory / "runs", directory):
        if next(run_directories(runs), None):
            name = runs.parent.name if runs.name == "runs" else runs.name
            return RunsSource(name, [runs])
    raise LabError(
        f"no runs in {directory}. --runs takes projects, or directories such as PROJECT/runs."
    )


def name_apart(sources: list[RunsSource]) -> list[RunsSource]:
    """The sources; where several have one name, each with the directory around its project."""
    n_with_name = Counter(source.name for source in sources)
    return [
        source
        if n_with_name[source.name] == 1
        else replace(source, name=f"{source.roots[0].parent.parent.name}/{source.name}")
        for source in sources
    ]
