"""Run before a tag: check_release.py VERSION. Exits 0 when it can be tagged, else 1 and says what is missing.

It looks at the committed state (HEAD), at the earlier tags, at the library of both, and at what an
update from each of them does to a project. Each rule is a file of hooks/release/.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from release import (
    changelog,
    library,
    public_names,
    published,
    questions,
    rendered,
    seeds,
    settings,
    tags,
    updates,
    worktree,
)
from release.projects import Projects
from release.questions import Questions
from release.repository import ReleaseError, Repository


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the tag to be made, for example 0.2.0")
    parser.add_argument("--repository", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args(argv)
    if not arguments.repository.is_dir():
        parser.error(f"{arguments.repository} is no directory")
    problems = check(arguments.repository, arguments.version)
    print(*problems or [f"{arguments.version} can be tagged"], sep="\n")
    return 1 if problems else 0


def check(path: Path, version: str) -> list[str]:
    """What keeps HEAD of the repository at `path` from becoming `version`, as instructions."""
    repository = Repository(path)
    problems = tried(lambda: tags.check_version(repository, version))
    problems += tried(lambda: tags.check_tags(repository))
    problems += tried(lambda: worktree.check_worktree(repository))
    problems += tried(lambda: changelog.check_entry(repository, version))
    problems += tried(lambda: published.check_published(repository))
    problems += check_library(repository, version)
    new = Questions(repository, "HEAD")
    form = tried(lambda: questions.check_form(new))
    # Projects can only be made and updated when copier can read the questions, without trust.
    return problems + (form or check_projects(repository, version, new))


def check_library(repository: Repository, version: str) -> list[str]:
    """What is wrong with the library of HEAD, and with what it no longer has of the last releases."""
    problems = tried(lambda: library.check_version_file(repository, version))
    broken = tried(lambda: library.check_files(repository))
    if broken:
        return problems + broken
    problems += tried(lambda: public_names.check_public_names(repository))
    return problems + tried(lambda: settings.check_settings(repository))


def check_projects(repository: Repository, version: str, new: Questions) -> list[str]:
    """What is wrong with new projects, and with those of every earlier release when they are updated."""
    problems = tried(lambda: seeds.check_lists(new))
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        projects = Projects(repository, Path(folder))
        broken = tried(lambda: rendered.check_all(projects, new))
        if broken:
            return problems + broken
        for tag in reversed(repository.tags):
            problems += tried(lambda tag=tag: check_tag(projects, new, tag, version))
    return list(dict.fromkeys(problems))


def check_tag(projects: Projects, new: Questions, tag: str, version: str) -> list[str]:
    """What is wrong for the projects of one earlier release."""
    repository = new.repository
    old = Questions(repository, tag)
    entries = changelog.entries_after(repository, tag, version)
    fresh = projects.fresh({})
    problems = seeds.check_paths(new, old, set(fresh))
    moved = set(settings.renamed(repository)["options"])
    problems += questions.check_answers(new, old, entries, moved)
    for answers in ({}, old.other_answers()):
        update = projects.update(tag, answers)
        problems += updates.check_update(update, new, repository, version)
        if not answers and tag == repository.newest_tag:
            problems += rendered.check_owners(update.before, update.fresh, new, entries)
    return problems


def tried(rule: Callable[[], list[str]]) -> list[str]:
    """The problems that a rule finds, or why it could not be tried."""
    try:
        return rule()
    except ReleaseError as error:
        return [str(error)]


if __name__ == "__main__":
    sys.exit(main())
