"""Whether updates can start from the version of the template that .copier-answers.yml names."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from ..machine.git import Git

ANSWERS = ".copier-answers.yml"
END = "so `copier update` cannot work"


def update_problem(root: Path) -> str:
    """Why no update can start from the project in `root`; "" when one can.

    Where only a network would tell, it is "" too.
    """
    path = root / ANSWERS
    if not path.exists():
        return f"{ANSWERS} is missing, {END}. Bring it back: git checkout HEAD -- {ANSWERS}"
    text = path.read_text(encoding="utf-8")
    commit = answer(text, "_commit")
    source = os.path.expanduser(answer(text, "_src_path"))
    if not commit:
        return (
            f"the template came without git, {END}.\n"
            "Give the address of its repository, and make the project again"
        )
    if is_address(source):
        return ""
    if not os.path.isabs(source):
        return (
            f"_src_path of {ANSWERS} is a relative path, {END}.\n"
            "Write the whole path of the template there"
        )
    if not os.path.isdir(source):  # it lies on another machine
        return ""
    if not shutil.which("git") or has_commit(source, commit):
        return ""
    return (
        f"{source} has no commit {commit}, {END}.\n"
        "It had changes that were not committed when this project was made. Commit them there.\n"
        f"Write the new commit behind _commit: in {ANSWERS}, and commit that here"
    )


def answer(text: str, name: str) -> str:
    """An answer of .copier-answers.yml that copier wrote by itself, or ""."""
    line = re.search(f"^{name}: *(.*)$", text, re.MULTILINE)
    return line[1].strip().strip("'\"") if line else ""


def is_address(source: str) -> bool:
    """Whether this is no path: a URL, a host as ssh takes it, or a forge in short as `gh:`."""
    return re.match(r"git\+|[\w.@-]+:", source) is not None


def has_commit(repository: str, commit: str) -> bool:
    return (
        Git(Path(repository))
        .run("cat-file", "-e", "--end-of-options", commit + "^{commit}")
        .returncode
        == 0
    )
