# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The code and settings of a trial, without its results: the README and pictures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..project import Project
from ..record.git import Git, GitFailed, NoRepository, locate

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".gif")
CACHES = ("__pycache__", ".ipynb_checkpoints")


def trial_directory(project: Project, name: str) -> Path:
    return project.source / "trials" / name


def trial_path(project: Project, name: str) -> str:
    """The directory of a trial for git, relative to the project."""
    return f"src/{project.package}/trials/{name}"


def is_result(path: str) -> bool:
    """Whether a file of a trial's directory, by its relative path, is a result."""
    return path == "README.md" or path.lower().endswith(PICTURES)


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


def code_of_trees(root: Path, trees: Iterable[str]) -> dict[str, str]:
    """The code and settings in recorded `trial_tree`s, as texts that are equal where these are.

    Trees that this repository does not have are left out.
    """
    git = Git(root)
    lines = "".join(f"{tree}\n" for tree in sorted(set(trees)))
    answers = git.run("cat-file", "--batch-check", stdin=lines).stdout.splitlines()
    present = [line.split()[0] for line in answers if line.split()[1:2] == ["tree"]]
    if not present:
        return {}
    empty = git("hash-object", "-t", "tree", "--stdin")
    pairs = "".join(f"{empty} {tree}\n" for tree in present)
    files: dict[str, list[str]] = {tree: [] for tree in present}
    tree = ""
    for line in git("diff-tree", "--stdin", "-r", stdin=pairs).splitlines():
        if not line.startswith(":"):
            tree = line.split()[1]
            continue
        facts, path = line.split("\t", 1)
        if not is_result(path):
            files[tree].append(f"{facts.split()[3]} {path}")
    return {tree: "\n".join(names) for tree, names in files.items()}


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
