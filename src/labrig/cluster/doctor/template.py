"""The check of `lab doctor` that looks at the template's files in the project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import LabError
from ...project import Project, read_yaml
from ...update.origin import ANSWERS, update_problem
from ...update.rendering import changed_files

# What one check of `lab doctor` found.


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    Args:
        level: "ok", "note" or "wrong".
        text: what was found.
        advice: what to do; empty when the level is "ok".
    """

    level: str
    text: str
    advice: str = ""


ADVICE = {
    "edited": "an update keeps the edit; where it changed the same lines, you choose: lab docs update",
    "deleted": "it stays deleted; to have it again: git log -- FILE, then git checkout COMMIT^ -- FILE",
}


def template_files(project: Project) -> Iterator[Finding]:
    """Those that were edited or deleted."""
    answers = project.root / ANSWERS
    if not answers.exists():
        text = f"{ANSWERS} is missing, so the template's files cannot be compared"
        yield Finding("note", text, f"restore it: git checkout HEAD -- {ANSWERS}")
        return
    package = read_yaml(answers).get("package_name")
    if package != project.package:
        yield Finding(
            "wrong",
            f"the package is {project.package}, but {ANSWERS} says {package}; updates go astray",
            f"write package_name: {project.package} there; lab docs update has all steps",
        )
    problem, _, advice = update_problem(project.root).partition(".\n")
    if problem:
        yield Finding("note", problem, " ".join(advice.split("\n")))
        return
    try:
        changed = changed_files(project.root)
    except LabError as error:
        text, _, advice = str(error).partition("; ")
        yield Finding("note", f"not compared with the template: {text}", advice)
        return
    if not changed:
        yield Finding("ok", "all are as the template wrote them")
    for file in changed:
        yield Finding("note", f"{file.path} was {file.state}", ADVICE[file.state])
