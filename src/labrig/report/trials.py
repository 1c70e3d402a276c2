"""The tree of trials, with the question that each one asks."""

from __future__ import annotations

from dataclasses import dataclass

from ..config.trial_names import trial_names
from ..project import Project
from ..trials.draw_tree import walk_tree
from ..trials.readme import read_readme


@dataclass(frozen=True)
class TrialLine:
    """One trial of the tree."""

    project: str
    name: str
    branches: str  # drawn before its name
    question: str
    verdict: str


def gather_trials(project: Project, name: str) -> list[TrialLine]:
    """The trials of this project, children after their parent; `name` is that of the project."""
    folder = project.source / "trials"
    readmes = {trial: read_readme(folder / trial) for trial in trial_names(project)}
    parents = {trial: readme.parent for trial, readme in readmes.items()}
    return [
        TrialLine(name, trial, branches, readmes[trial].question, readmes[trial].verdict)
        for trial, branches in walk_tree(list(readmes), parents)
    ]
