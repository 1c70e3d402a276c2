# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""The check `template-files`: says once of each file of the template that it was edited by hand.

Of an update it says which edited files it removes. It stops no commit.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ..update.template_files import HASHES, hash_of, read_hashes


def main(names: list[str]) -> int:
    """Prints what the staged files mean for the template's; always 0."""
    if Path(HASHES).is_file():
        staged = set(git("diff", "--cached", "--name-only", "--relative", "-z").split("\0"))
        hashes = read_hashes(Path(HASHES).read_text(encoding="utf-8"))
        tell_of_edits(staged, hashes)
        if HASHES in staged:
            tell_of_removed_edits(hashes)
    return 0


def tell_of_edits(staged: set[str], hashes: dict[str, str]) -> None:
    """Names the edited files of the template among those staged, unless this clone did before."""
    memory = Path(git("rev-parse", "--git-path", "lab-edited-files").strip())
    named_before = memory.read_text(encoding="utf-8").splitlines() if memory.exists() else []
    edited = [
        path
        for path, expected in hashes.items()
        if path in staged
        and path not in named_before
        and Path(path).is_file()
        and hash_of(Path(path).read_bytes()) != expected
    ]
    if not edited:
        return
    memory.write_text("\n".join([*named_before, *edited]) + "\n", encoding="utf-8")
    print(
        f"the template's, edited by hand: {' '.join(edited)}\n"
        "The commit continues, and updates keep the edit. Where an update changes the\n"
        "same lines, you will have to choose; a file that it removes is lost.\n"
        "lab doctor says where such an edit belongs."
    )


def tell_of_removed_edits(hashes: dict[str, str]) -> None:
    """Names the files that this update removes or renames although they were edited."""
    before = read_hashes(show(f"HEAD:./{HASHES}"))
    gone = [path for path in before if path not in hashes and not Path(path).exists()]
    edited = [path for path in gone if is_other(show(f"HEAD:./{path}"), before[path])]
    if edited:
        print("this update removes files that you had edited. To see such an edit again:")
        for path in edited:
            print(f"  git show HEAD:./{path}")


def is_other(text: str, expected: str) -> bool:
    return bool(text) and hash_of(text.encode()) != expected


def show(place: str) -> str:
    """The text of a file in a commit; "" when it is not there."""
    done = subprocess.run(["git", "show", place], capture_output=True, check=False)
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout
