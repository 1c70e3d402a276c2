"""`lab hooks`: the checks of a commit, as one hook.

Without files it checks all that git tracks here. The variable SKIP, which pre-commit reads too,
leaves checks out once: SKIP=imports git commit
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..project import Project
from . import conflicts, deleted_trials, imports, large_files, style, tokens

# In this order; the first one alone when it fails, since no other tool can read such a file.
CHECKS: dict[str, Callable[[list[str]], int]] = {
    "conflicts": conflicts.main,
    "style": style.main,
    "large-files": large_files.main,
    "tokens": tokens.main,
    "imports": imports.main,
    "deleted-trials": deleted_trials.main,
}


def hooks_command(project: Project, args: list[str]) -> int:
    """Runs the checks; 1 when one of them refuses a file, else 0."""
    parser = argparse.ArgumentParser(
        prog="lab hooks", description="The checks of a commit; without FILE, of all files."
    )
    parser.add_argument("--skip", action="append", default=[], choices=CHECKS, metavar="CHECK")
    parser.add_argument("--max-kb", type=int, default=large_files.MAX_KB, metavar="N")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(args)
    checks = CHECKS | {"large-files": partial(large_files.main, max_kb=options.max_kb)}
    skipped = {*options.skip, *os.environ.get("SKIP", "").split(",")}
    files = options.files or tracked_files()
    refused = []
    for name, check in checks.items():
        if name in skipped or "conflicts" in refused:
            continue
        if check(files):
            refused.append(name)
            print(f"^ refused by the check {name}\n")
    return int(bool(refused))


def tracked_files() -> list[str]:
    """The files below this directory that git tracks, without links and submodules."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout
    names = os.fsdecode(listed).split("\0")
    return [name for name in names if Path(name).is_file() and not Path(name).is_symlink()]
