"""Keeps with the data file which programs made the raw data, and which code packed them."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from ... import env
from ...machine.git import Git, GitFailed
from ...machine.secrets import has_secret_name, hide_tokens
from ..file.errors import DataFileError
from .sources import Source

SUFFIXES = (".ipynb", ".jl", ".m", ".pl", ".py", ".r", ".sh")
NAMES = ("Makefile", "Snakefile")
MAX_BYTES = 1 << 20  # of a text; of a longer one there is the hash only


class RawProgram(TypedDict):
    """A program as it stands in the attribute `made_by` of a data file."""

    path: str
    sha256: str
    text: str | None  # tokens are hidden; None: too long, no text, or secret by its name


def find_programs(sources: Sequence[Source]) -> list[Path]:
    """The programs that lie in the sources; of a file the one of its name next to it, as x.py of x.tar.

    Those of a project's own folder have another purpose.
    """
    found = []
    for source in sources:
        folder = source.path if source.path.is_dir() else source.path.parent
        if (folder / "pyproject.toml").exists():
            continue
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            is_program = path.suffix.lower() in SUFFIXES or path.name in NAMES
            if is_program and (folder == source.path or path.stem == source.path.stem):
                found.append(path)
    return found


def programs_attr(paths: Sequence[Path]) -> dict[str, str]:
    """The attribute of the file; none without programs."""
    programs = []
    for path in dict.fromkeys(paths):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataFileError(
                f"{path} cannot be read: {error.strerror}. It is to be kept with the data file."
            ) from error
        text = None
        is_text = len(content) <= MAX_BYTES and b"\0" not in content
        if is_text and not has_secret_name(path.name):
            text = hide_tokens(content.decode(errors="replace"))
        sha256 = hashlib.sha256(content).hexdigest()
        programs.append(RawProgram(path=os.path.relpath(path), sha256=sha256, text=text))
    return {"made_by": json.dumps(programs, ensure_ascii=False)} if programs else {}


# Which code packs: git's commit of the project, and what was not committed.


def code_version(root: Path) -> dict[str, str]:
    """`git_commit` of the code that runs, and `git_changed`: Python files that differ from it.

    Empty without git. A job runs frozen code, which is a commit of its own.
    """
    if env.SNAPSHOT_COMMIT in os.environ:
        return {"git_commit": os.environ[env.SNAPSHOT_COMMIT]}
    git = Git(root)
    try:
        version = {"git_commit": git("rev-parse", "HEAD")}
        status = git.content("status", "--porcelain", "--no-renames", "--", "src/*.py")
    except GitFailed:
        return {}
    if status:
        lines = status.decode(errors="replace").splitlines()  # HDF5 takes UTF-8 only
        version["git_changed"] = ", ".join(line[3:] for line in lines)
    return version
