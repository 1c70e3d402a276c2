"""Editable installs of other repositories: packages whose code can change without a new version."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .git import Git, GitFailed, Repository, locate, remote_of
from .own_files import is_package_directory


def source_directory(distribution: Distribution) -> Path | None:
    """Where the code of an editable install lies; None for a package that was copied."""
    try:
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        direct = {}
    if direct.get("dir_info", {}).get("editable"):
        return Path(unquote(urlsplit(direct["url"]).path))
    # `setup.py develop`, and packages in a directory of PYTHONPATH
    place = str(distribution.locate_file(""))
    return None if is_package_directory(place) else Path(place)


@cache
def nearest_repository(directory: str) -> Path | None:
    """The work tree of git that `directory` (without links) lies in; None outside of any."""
    if os.path.lexists(os.path.join(directory, ".git")):
        return Path(directory)
    parent = os.path.dirname(directory)
    return None if parent == directory else nearest_repository(parent)


@cache
def editable_repositories() -> frozenset[Path]:
    """The work trees of all editable installs."""
    directories = filter(None, map(source_directory, distributions()))
    repositories = {nearest_repository(os.path.realpath(directory)) for directory in directories}
    return frozenset(path for path in repositories if path is not None)


def editable_state(distribution: Distribution, project_root: Path | None) -> str:
    """` (commit 1a2b3c4d5e6f of URL, unchanged)` for an editable install of another repository.

    In place of `unchanged` may stand `changed` and a hash of what is not committed. Empty for a
    package without a repository of its own, and for the project at `project_root`.
    """
    directory = source_directory(distribution)
    if directory is None:
        return ""
    work_tree = nearest_repository(os.path.realpath(directory))
    project_tree = nearest_repository(os.path.realpath(project_root)) if project_root else None
    if work_tree is None or work_tree == project_tree:
        return ""
    try:
        return f" ({describe_repository(locate(work_tree))})"
    except GitFailed as error:
        return f" (git cannot read it: {error})"


def describe_repository(repository: Repository) -> str:
    """The commit of a repository, its remote, and a hash of what is not committed."""
    if repository.head is None:
        return "without a commit"
    git = Git(repository.top)
    changes = uncommitted_changes(git)
    state = f"changed {hashlib.sha256(changes).hexdigest()[:8]}" if changes else "unchanged"
    remote = remote_of(git, repository.branch)
    of_remote = f" of {remote.url}" if remote else ""
    return f"commit {repository.head[:12]}{of_remote}, {state}"


def uncommitted_changes(git: Git) -> bytes:
    """The difference to HEAD, and the Python files that git does not track."""
    plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
    texts = [git("diff", *plain, "HEAD")]
    for name in git.paths("ls-files", "-o", "--exclude-standard", "-z", "--", "*.py"):
        texts += [name, (git.directory / name).read_text(encoding="utf-8", errors="replace")]
    return "\n".join(texts).encode(errors="replace") if any(texts) else b""
