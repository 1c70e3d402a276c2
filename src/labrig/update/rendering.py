"""The template's files of a project, compared with what the template writes today from the same answers.

copier renders them again, from the commit that the project came from. Nothing of the template is run.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import Failed
from .origin import ANSWERS, answer

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
