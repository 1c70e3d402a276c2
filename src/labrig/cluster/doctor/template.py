"""The check of `lab doctor` that looks at the template's files in the project.

copier renders them again, from the commit that the project came from. Nothing of the template is run.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import Failed, LabError
from ...project import Project, read_yaml
from ...update.origin import ANSWERS, answer, update_problem

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


MARK = b"Template's file: "  # in the first line of each
HEAD_BYTES = 200
TIMEOUT_S = 120


@dataclass(frozen=True)
class ChangedFile:
    """A file of the template that is not as the template wrote it.

    Args:
        path: below the project.
        state: "edited" or "deleted".
    """

    path: str
    state: str


def changed_files(root: Path) -> list[ChangedFile]:
    """The template's files of the project in `root` that somebody changed.

    Raises:
        Failed: they cannot be rendered here, with the reason.
    """
    changed = []
    with tempfile.TemporaryDirectory(prefix="lab-template-") as temporary:
        fresh = Path(temporary)
        render_again(root, fresh)
        for path in sorted(fresh.rglob("*")):
            if not path.is_file() or MARK not in path.read_bytes()[:HEAD_BYTES]:
                continue
            name = path.relative_to(fresh).as_posix()
            file = root / name
            if not file.is_file():
                changed.append(ChangedFile(name, "deleted"))
            elif content_of(file) != content_of(path):
                changed.append(ChangedFile(name, "edited"))
    return changed


def render_again(root: Path, folder: Path) -> None:
    """Writes the project that its answers make into the empty directory `folder`."""
    copier = shutil.which("copier")
    if copier is None:
        raise Failed("copier is not installed here; pipx install copier")
    shutil.copy(root / ANSWERS, folder)
    text = (root / ANSWERS).read_text(encoding="utf-8")
    source, commit = answer(text, "_src_path"), answer(text, "_commit")
    command = [copier, "recopy", "--defaults", "--overwrite", "--quiet", "--vcs-ref", commit]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"it did not come within {TIMEOUT_S} s; is there a network?") from error
    if done.returncode:
        lines = done.stderr.strip(" |\n").splitlines() or [f"exit code {done.returncode}"]
        raise Failed(f"{lines[-1].strip(' |.')}; does it answer? git ls-remote {source}")


def content_of(file: Path) -> bytes:
    """What a file holds; with which ends of lines it was checked out does not count."""
    return file.read_bytes().replace(b"\r\n", b"\n")
