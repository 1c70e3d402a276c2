# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The tree of trials, with the question that each one asks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..config.trial_names import trial_names
from ..project import Project
from ..trials.tree import parent_of, walk_tree

QUESTION = re.compile(r"^\*\*Question\.\*\*[ \t]*(\S.*)$", re.MULTILINE)
VERDICT = re.compile(r"^\*\*Verdict\.\*\*[ \t]*(\S.*)$", re.MULTILINE)


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
    names = trial_names(project)
    parents = {trial: parent_of(folder / trial) for trial in names}
    lines = []
    for trial, branches in walk_tree(names, parents):
        readme = read_readme(folder / trial / "README.md")
        question = first_match(QUESTION, readme)
        lines.append(TrialLine(name, trial, branches, question, first_match(VERDICT, readme)))
    return lines


def read_readme(path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def first_match(pattern: re.Pattern, text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
