"""The code and settings of a trial, without its results: the README and pictures."""

from __future__ import annotations

from pathlib import Path

from ..project import Project
from ..record.compare.code_files import code_of_rows
from ..record.files.schema import Row
from ..record.freeze.frozen_files import git_hash
from ..record.freeze.git import Git, GitFailed

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".gif")
SETTINGS = (".yaml", ".yml")
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


def has_code_of_today(project: Project, name: str, row: Row) -> bool:
    """Whether the files of code that a run of a trial used, and the trial's settings, are as then.

    Args:
        name: of the trial.
        row: of a run whose code was recorded; of others nobody can tell.
    """
    (code,) = code_of_rows([row]).values()
    then = {path: hashes for path, hashes in code if path}
    if not then:
        return False
    top = top_of_repository(project)
    directory = trial_directory(project, name)
    of_trial = files_of_tree(project, row["trial_tree"]) if row["trial_tree"] else {}
    settings = [path for path in of_trial if path.endswith(SETTINGS)]
    return all(is_as_then(top / path, hashes) for path, hashes in then.items()) and all(
        is_as_then(directory / path, of_trial[path]) for path in settings
    )


def top_of_repository(project: Project) -> Path:
    """What the paths of recorded files are relative to."""
    try:
        return Path(Git(project.root)("rev-parse", "--show-toplevel").strip())
    except GitFailed:  # no repository
        return project.root


def files_of_tree(project: Project, tree: str) -> dict[str, str]:
    """Git's hash of each file of a recorded tree; none where this repository does not have it."""
    try:
        lines = Git(project.root).paths("ls-tree", "-r", "-z", "--end-of-options", tree)
    except GitFailed:
        return {}
    entries = [line.partition("\t") for line in lines]
    return {path: facts.split()[2] for facts, _, path in entries}


def is_as_then(path: Path, hashes: str) -> bool:
    """Whether a file has the content of each of these hashes, which stand with spaces between them."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    return all(git_hash(content, each) == each for each in hashes.split())
