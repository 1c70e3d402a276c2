"""Which code packs: git's commit of the project, and what was not committed."""

import os
import subprocess
from pathlib import Path

from .. import env

# No program that somebody named in git's configuration is run
SAFE = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
)


def code_version(root: Path) -> dict[str, str]:
    """`git_commit` of the code that runs, and `git_changed`: Python files that differ from it.

    Empty without git. A job runs frozen code, which is a commit of its own.
    """
    if env.SNAPSHOT_COMMIT in os.environ:
        return {"git_commit": os.environ[env.SNAPSHOT_COMMIT]}
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return {}
    version = {"git_commit": commit}
    status = _git(root, "status", "--porcelain", "--no-renames", "--", "src/*.py")
    if status:
        version["git_changed"] = ", ".join(line[3:] for line in status.splitlines())
    return version


def _git(root: Path, *words: str) -> str | None:
    """What git prints, without the line break at its end; None when it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *SAFE, *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except OSError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None
