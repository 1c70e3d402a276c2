"""The code and settings of a trial, without its results: the README and pictures."""

from __future__ import annotations

from pathlib import Path

import yaml

from ..project import Project
from ..record.compare.code_meaning import (
    contents_of_blobs,
    meaning_of_source,
    meanings_of_blobs,
)
from ..record.compare.trial_code import (
    SETTINGS,
    TRIALS,
    files_of_rows,
    files_of_trees,
    is_result,
)
from ..record.files.schema import Row
from ..record.freeze.frozen_files import git_hash
from ..record.freeze.git import Git, GitFailed

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


def has_code_of_today(project: Project, name: str, row: Row) -> bool:
    """Whether the code that a run of a trial used, and the trial's settings files, mean what they do now.

    Args:
        name: of the trial.
        row: of a run whose code was recorded; of others nobody can tell.
    """
    then = files_of_rows(project.root, [row])[row["run_dir"]]
    tree = row["trial_tree"]
    in_trial = files_of_trees(project.root, [tree])[tree] if tree else {}
    settings = {path: in_trial[path] for path in in_trial if path.endswith(SETTINGS)}
    if not then:
        return False
    return all(
        has_content(project, path_today(project, name, path), hashes)
        for path, hashes in (
            then | {f"{TRIALS}{path}": settings[path] for path in settings}
        ).items()
    )


def path_today(project: Project, name: str, path: str) -> Path:
    """Where a file of recorded code lies now.

    Args:
        path: as `files_of_rows` gives it: relative to the package, or to the repository.
    """
    if path.startswith(TRIALS):
        return trial_directory(project, name) / path.removeprefix(TRIALS)
    places = [
        project.source / path,
        *(place / path for place in (project.root, *project.root.parents)),
    ]
    return next((place for place in places if place.is_file()), places[0])


def has_content(project: Project, path: Path, hashes: str) -> bool:
    """Whether a file means what the blobs with these hashes do, which stand with spaces between them."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    others = [blob for blob in hashes.split() if git_hash(content, blob) != blob]
    if not others:
        return True
    if path.suffix in SETTINGS:
        before = contents_of_blobs(project.root, others)
        return len(before) == len(others) and all(
            same_settings(content, each) for each in before.values()
        )
    meaning = meaning_of_source(content) if path.suffix == ".py" else None
    meanings = meanings_of_blobs(project.root, others)
    return meaning is not None and all(meanings.get(blob) == meaning for blob in others)


def same_settings(one: bytes, other: bytes) -> bool:
    """Whether two YAML files hold the same; comments and white space are no settings."""
    try:
        return yaml.safe_load(one) == yaml.safe_load(other)
    except yaml.YAMLError:
        return False
