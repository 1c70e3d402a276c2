"""The check `deleted-trials`: says which trials a commit deletes without a line in TRIALS.md.

It stops no commit.
"""

from __future__ import annotations

import re
import subprocess

from ..config.gone_trials import PAGE, gone_trials
from ..project import this_project

TRIAL = re.compile(r"(?:^|/)trials/([a-z]\w*)/config\.yaml$")


def main(names: list[str]) -> int:
    """Prints what to type for each trial that the commit deletes and TRIALS.md does not name.

    Args:
        names: files to be committed; git itself is asked for those that are deleted.
    """
    gone = gone_trials(this_project().root / PAGE)
    moved = moved_trials()
    for name in deleted_trials():
        if name in gone or moved.get(name) == name:  # the package was renamed
            continue
        print(
            f"trial {name} is deleted, and {PAGE} does not say why. The commit continues.\n"
            f'To keep what was learnt: lab trials drop {name} --why "..."'
        )
        if name in moved:
            print(f"If it was renamed: lab trials rename {name} {moved[name]}")
    return 0


def deleted_trials() -> list[str]:
    """The trials whose config.yaml the commit deletes, or gives another place."""
    names = staged("--no-renames", "--name-only", "--diff-filter=D").splitlines()
    return sorted({match[1] for match in map(TRIAL.search, names) if match})


def moved_trials() -> dict[str, str]:
    """The name of the directory that config.yaml went to, by the trial that it left."""
    moved = {}
    for line in staged("-M", "--name-status", "--diff-filter=R").splitlines():
        _, old, new = line.split("\t")
        before = TRIAL.search(old)
        after = TRIAL.search(new)
        if before and after:
            moved[before[1]] = after[1]
    return moved


def staged(*options: str) -> str:
    """What git says of the changes in this commit."""
    command = ["git", "diff", "--cached", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
