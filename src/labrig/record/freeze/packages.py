"""The installed packages, as env.txt lists them."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...machine.secrets import without_credentials
from ...machine.text_formats import and_more
from ...project import LIBRARY
from .git import Git, GitFailed, Repository, locate, remote_of
from .loading import is_package_directory

# Installed files that were edited: `record.package_files=true` compares them with RECORD.

MAX_NAMES = 3  # files that a line of env.txt names
CLOCK_S = 2  # times of files that are nearer than this are the same


def edited_state(distribution: Distribution) -> str:
    """` (edited a.py, b.py: 1a2b3c4d)` with a hash of the edits, or an empty string.

    A package without RECORD cannot be checked.
    """
    record = distribution.read_text("RECORD")
    if not record:
        return ""
    edited = edited_files(Path(str(distribution.locate_file(""))), record)
    if not edited:
        return ""
    digest = hashlib.sha256("\n".join(edited).encode()).hexdigest()[:8]
    names = [line.partition(" ")[2] for line in edited]
    return f" (edited {and_more(names, MAX_NAMES)}: {digest})"


def edited_files(directory: Path, record: str) -> list[str]:
    """`HASH NAME` for every file of `directory` that has another hash than its RECORD says.

    Commands lie elsewhere and hold the path of the environment, so they are not compared.
    """
    edited = []
    for name, recorded, *_ in csv.reader(record.splitlines()):
        algorithm, _, expected = recorded.partition("=")
        if algorithm != "sha256" or name.startswith(("..", "/")):
            continue
        actual = file_hash(directory / name)
        if actual != expected:
            edited.append(f"{actual} {name}")
    return edited


def file_hash(path: Path) -> str:
    """The sha256 of a file as RECORD writes it, or `missing`."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return "missing"
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def edited_modules() -> list[str]:
    """The imported files of installed packages that were edited after their installation, sorted.

    Only files that are newer than the RECORD of their package, which an installer writes last, are
    compared with it; so this takes milliseconds.
    """
    edited: list[str] = []
    for directory in filter(is_package_directory, sys.path):
        records = {name_of(path): path for path in Path(directory).glob("*.dist-info/RECORD")}
        times_s = {name: path.stat().st_mtime for name, path in records.items()}
        newest_s = max(times_s.values(), default=0)
        for path in imported_below(directory):
            name = os.path.relpath(path, directory).partition(os.sep)[0].removesuffix(".py").lower()
            if os.stat(path).st_mtime <= times_s.get(name, newest_s) + CLOCK_S:
                continue
            record = records[name].read_text(encoding="utf-8") if name in records else ""
            if not record or is_edited(Path(path), Path(directory), record):
                edited.append(path)
    return sorted(edited)


def name_of(record: Path) -> str:
    """The name of a package from the path of its RECORD, as its folder mostly is called."""
    return record.parent.name.partition("-")[0].replace("-", "_").lower()


def imported_below(directory: str) -> list[str]:
    """The imported files below a directory of packages."""
    paths = [
        getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())
    ]
    inside = os.path.join(directory, "")
    return [
        path
        for path in paths
        if isinstance(path, str) and path.startswith(inside) and os.path.isfile(path)
    ]


def is_edited(path: Path, directory: Path, record: str) -> bool:
    """Whether a file has another hash than its RECORD says."""
    name = path.relative_to(directory).as_posix()
    rows = [row for row in csv.reader(record.splitlines()) if row[0] == name]
    return bool(rows) and rows[0][1] != f"sha256={file_hash(path)}"


# Editable installs of other repositories: packages whose code can change without a new version.


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
        with suppress(FileNotFoundError):  # gone since, or a link to nowhere, as Emacs makes
            text = (git.directory / name).read_text(encoding="utf-8", errors="replace")
            texts += [name, text]
    return "\n".join(texts).encode(errors="replace") if any(texts) else b""


HEADER = re.compile(r"^(Name|Version): *(.+)$", re.MULTILINE)


def installed_packages(project_root: Path | None = None, check_files: bool = False) -> list[str]:
    """`name==version` of every installed distribution, sorted by name.

    ` @ URL` follows when it does not come from an index: a directory, a file or a repository. Then
    come the commit of an editable install, and the files that were edited after the installation.

    Args:
        project_root: the project, whose own commit is recorded elsewhere.
        check_files: compare every installed file with the hash that its RECORD holds.
    """
    lines: dict[str, str] = {}
    for distribution in distributions():
        headers = read_headers(distribution)
        name = headers.get("Name")
        # Of two versions, Python imports the one that comes first on the path.
        if name and name.lower() not in lines:
            line = f"{name}=={headers.get('Version')}{origin_of(distribution)}"
            line += editable_state(distribution, project_root)
            if check_files:
                line += edited_state(distribution)
            lines[name.lower()] = line
    return [lines[key] for key in sorted(lines)]


def read_headers(distribution: Distribution) -> dict[str, str]:
    """Name and version of a distribution.

    `distribution.metadata` has both, but parses each package's README too: 33 ms instead of 5 ms
    for 130 packages.
    """
    # The files of a wheel, of an .egg-info directory, and of a single .egg-info file.
    texts = (distribution.read_text(name) for name in ("METADATA", "PKG-INFO", ""))
    text = next(filter(None, texts), "")
    headers = text.partition("\n\n")[0]
    return dict(HEADER.findall(headers))


def origin_of(distribution: Distribution) -> str:
    """` @ URL` of what was not installed from an index, else an empty string."""
    try:
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    return f" @ {without_credentials(direct['url'])}" if "url" in direct else ""


def other_packages(lines: list[str]) -> dict[str, str]:
    """As `versions_by_name`, without labrig: that is frozen with the code, and compared there."""
    return {
        name: version for name, version in versions_by_name(lines).items() if name != LIBRARY.name
    }


def versions_by_name(lines: list[str]) -> dict[str, str]:
    """The lines of env.txt as {name: version}, with names as PyPI writes them: `hydra-core`."""
    versions = {}
    for line in lines:
        name, separator, version = line.partition("==")
        if separator:
            versions[re.sub(r"[-_.]+", "-", name).lower()] = version
    return versions
