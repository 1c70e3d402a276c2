# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The check `template-files`: says once of each file of the template that it was edited by hand.

It stops no commit.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

MARK = b"Template's file: "  # in the first lines of each
ANSWERS = ".copier-answers.yml"  # an update of the template changes it
HEAD_BYTES = 200


def main(names: list[str]) -> int:
    """Prints which of the files `names` are the template's and are committed with an edit by hand."""
    staged = git("diff", "--cached", "--name-only").splitlines()
    if any(name.rpartition("/")[2] == ANSWERS for name in staged):
        return 0
    memory = Path(git("rev-parse", "--git-path", "lab-edited-files").strip())
    known = memory.read_text(encoding="utf-8").splitlines() if memory.exists() else []
    edited = [name for name in names if name in staged and name not in known and is_template(name)]
    if edited:
        memory.write_text("\n".join([*known, *edited]) + "\n", encoding="utf-8")
        print(
            f"the template's, edited by hand: {' '.join(edited)}\n"
            "The commit goes on. Where an update changes the same lines, you will have to choose.\n"
            "It is better to override them in your own files, or to change the template."
        )
    return 0


def is_template(name: str) -> bool:
    with open(name, "rb") as file:
        return MARK in file.read(HEAD_BYTES)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout
