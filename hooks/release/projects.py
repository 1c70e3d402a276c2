"""Projects made and updated for the check: as their users do it, without trust."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import copier
import yaml

from .repository import ReleaseError, Repository, run_git

OPTIONS: dict[str, Any] = {"defaults": True, "quiet": True, "unsafe": False, "overwrite": True}
ANSWERS = ".copier-answers.yml"
IDENTITY = ("-c", "user.name=release", "-c", "user.email=release@localhost")

Files = dict[str, bytes]  # path below the project -> content


@dataclass(frozen=True)
class Update:
    """An untouched project of the release `tag`, updated to HEAD.

    Attributes:
        answers: what was answered, where it is not the default.
        before: its files.
        after: its files when updated.
        fresh: the files of a new project with the same answers.
        conflicts: files in two versions.
    """

    tag: str
    answers: dict[str, Any]
    before: Files
    after: Files
    fresh: Files
    conflicts: list[str]


class Projects:
    """Makes projects of a clone, since copier would take uncommitted files of the original."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.folder = folder
        self.clone = folder / "template"
        origin = str(repository.path.resolve())
        repository.git("clone", "--quiet", "--no-local", origin, str(self.clone))
        self.head = repository.git("rev-parse", "HEAD")
        self._fresh: dict[str, Files] = {}

    def fresh(self, answers: dict[str, Any]) -> Files:
        """The files of a new project of HEAD.

        Raises:
            ReleaseError: copier or Jinja refuses.
        """
        key = repr(sorted(answers.items()))
        if key not in self._fresh:
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                project = self._copy(Path(place), self.head, answers)
                self._fresh[key] = files_of(project)
        return self._fresh[key]

    def update(self, tag: str, answers: dict[str, Any]) -> Update:
        """What an update does to a project of `tag` in which nobody has edited anything.

        Raises:
            ReleaseError: copier or Jinja refuses.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            project = self._copy(Path(place), tag, answers)
            before = files_of(project)
            run_git(project, "init", "--quiet")
            run_git(project, "add", "--all", "--force")
            run_git(project, *IDENTITY, "commit", "--quiet", "--no-verify", "-m", tag)
            with refusals(f"the update of a project of {tag} with {described(answers)}"):
                copier.run_update(project, vcs_ref=self.head, **OPTIONS)
            conflicts = run_git(project, "diff", "--name-only", "--diff-filter=U").stdout.split()
            after = files_of(project)
        return Update(tag, answers, before, after, self.fresh(recorded_answers(after)), conflicts)

    def _copy(self, place: Path, ref: str, answers: dict[str, Any]) -> Path:
        project = place / "project"
        of = "HEAD" if ref == self.head else ref
        with refusals(f"a project of {of} with {described(answers)}"):
            copier.run_copy(str(self.clone), project, data=answers, vcs_ref=ref, **OPTIONS)
        return project


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Whatever copier raises, as a ReleaseError: here it is the template's mistake."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason"
        raise ReleaseError(f"{what} fails: {type(error).__name__}: {reason}") from None


def described(answers: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in answers.items()) or "the defaults"


def files_of(project: Path) -> Files:
    """All files of a project outside .git."""
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for path in sorted(project.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(project).parts
    }


def recorded_answers(files: Files) -> dict[str, Any]:
    """The answers that a project holds."""
    recorded = yaml.safe_load(files.get(ANSWERS, b"")) or {}
    return {name: value for name, value in recorded.items() if not name.startswith("_")}
