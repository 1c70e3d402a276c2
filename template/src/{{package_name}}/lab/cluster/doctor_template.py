# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The check of `lab doctor` that looks at the template's files in the project."""

from __future__ import annotations

from collections.abc import Iterator

from ..project import Project, read_yaml
from ..update.origin import update_problem
from ..update.template_files import HASHES, changed_files
from .finding import Finding

ANSWERS = ".copier-answers.yml"


def template_files(project: Project) -> Iterator[Finding]:
    """Those that were edited, moved or deleted, and where such an edit belongs."""
    answers = project.root / ANSWERS
    if not (answers.exists() and (project.root / HASHES).exists()):
        missing = HASHES if answers.exists() else ANSWERS
        text = f"{missing} is missing, so the template's files cannot be compared"
        yield Finding("note", text, f"restore it: git checkout HEAD -- {missing}")
        return
    answer = read_yaml(answers).get("package_name")
    if answer != project.package:
        yield Finding(
            "wrong",
            f"the package is {project.package}, but {ANSWERS} says {answer}; updates go astray",
            f"name the directory src/{answer} again, then: lab rename {project.package}",
        )
    problem, _, advice = update_problem(project.root).partition(".\n")
    if problem:
        yield Finding("note", problem, " ".join(advice.split("\n")))
    changed = changed_files(project.root)
    if not changed:
        yield Finding("ok", "all are as the template wrote them")
    for file in changed:
        place = f" to {file.moved_to}" if file.moved_to else ""
        advice = file.advice if file.state == "edited" else ADVICE[file.state]
        yield Finding("note", f"{file.path} was {file.state}{place}", advice)
    if any(file.state == "edited" for file in changed):
        yield Finding(
            "note",
            "an update keeps these edits; where it changed the same lines, you choose",
            "docs/lab/update.md: move an edit into your own code",
        )


ADVICE = {
    "moved": "updates no longer reach it; move it back, and import it from your own code",
    "deleted": "it stays deleted; to have it again: git log -- FILE, then git checkout COMMIT^ -- FILE",
}
