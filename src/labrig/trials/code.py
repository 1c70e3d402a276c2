"""The code and settings of a trial, without its results: the README and pictures."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..project import Project
from ..record.git import Git, GitFailed, NoRepository, locate
from ..record.trial_code import is_result

CACHES = ("__pycache__", ".ipynb_checkpoints")


def trial_directory(project: Project, name: str) -> Path:
    return project.source / "trials" / name


def trial_path(project: Project, name: str) -> str:
    """The directory of a trial for git, relative to the project."""
    return f"src/{project.package}/trials/{name}"


def code_files(directory: Path) -> list[str]:
    """The files of a trial that are code or settings, relative to its directory, sorted.

    Files that git ignores, such as logs and checkpoints, are left out.
    """
    try:
        git = Git(directory)
        names = git.paths("ls-files", "-z", "-c", "-o", "--exclude-standard", "--", ".")
    except GitFailed:  # no repository
        paths = (path for path in directory.rglob("*") if not set(CACHES) & set(path.parts))
        names = [str(path.relative_to(directory)) for path in paths]
    return sorted({name for name in names if (directory / name).is_file() and not is_result(name)})


def tree_today(project: Project, name: str) -> str | None:
    """Git's hash of a trial's directory as it is now; None without git.

    The index of the user stays as it is.
    """
    path = trial_path(project, name)
    with tempfile.TemporaryDirectory(prefix="lab-trial-") as temporary:
        git = Git(project.root, {"GIT_INDEX_FILE": f"{temporary}/index"})
        try:
            prefix = locate(project.root).prefix
            git("add", "-A", "--", path)
            return git("write-tree", f"--prefix={prefix}{path}/")
        except (GitFailed, NoRepository):
            return None
