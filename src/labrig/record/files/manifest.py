"""manifest.jsonl: name, size and sha256 of every file of a run's record, by which `lab runs verify` looks.

It is only appended to. A file that changes gets a further line, and its last line counts; a file that
a further attempt moves away gets a line without a hash. The line comes before the file has its name: a
process that is killed between them leaves a file that has its line before.

It finds accidents and careless edits. Whoever writes a line after an edit is not found.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ...machine.secrets import hide_secrets
from .atomic import json_text, plain_json, read_bytes, write_file
from .forms import Int, RelativePath
from .json_lines import JsonLines, read_lines

MANIFEST = "manifest.jsonl"


class ListedFile(TypedDict):
    """A line of manifest.jsonl."""

    path: RelativePath
    bytes: Int
    sha256: str | None  # None: the file was moved away


@dataclass(frozen=True)
class Version:
    """One content of a file that the manifest lists."""

    n_bytes: int
    sha256: str | None


def read_manifest(run_dir: Path) -> dict[str, list[Version]]:
    """The contents of each file, the newest last; the file that was listed last is the last one."""
    versions: dict[str, list[Version]] = {}
    for line in read_lines(run_dir / MANIFEST, ListedFile):
        version = Version(line["bytes"], line["sha256"])
        versions[line["path"]] = [*versions.pop(line["path"], []), version]
    return versions


def listed_files(run_dir: Path) -> dict[str, Version]:
    """The newest content of each file that was not moved away."""
    newest = {path: versions[-1] for path, versions in read_manifest(run_dir).items()}
    return {path: version for path, version in newest.items() if version.sha256}


def write_listed(run_dir: Path, name: str, value: Any) -> Any:
    """Writes a JSON file of the record, after its line; returns the object that the file says."""
    plain = plain_json(value)
    text = hide_secrets(json_text(plain))
    version = version_of_content(text.encode(errors="surrogateescape"))
    write_file(run_dir / name, text, before=lambda: add_lines(run_dir, {name: version}))
    return plain


def append_listed(run_dir: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Adds a line to a file of JSON objects; processes that do so at once wait for each other."""
    lines = JsonLines(run_dir / name)
    try:
        with locked(run_dir):
            line = lines.line_of(entry)
            content = read_bytes(run_dir / name) + line
            add_lines(run_dir, {name: version_of_content(content)})
            lines.write(line)
    finally:
        lines.close()


def list_files(run_dir: Path, names: Iterable[str]) -> None:
    """Lists files that are there already."""
    versions = {}
    for name in names:
        with open(run_dir / name, "rb") as file:
            versions[name] = Version(os.fstat(file.fileno()).st_size, hash_of(file))
    add_lines(run_dir, versions)


def list_moved(run_dir: Path, old: str, new: str) -> None:
    """Lists that a file gets another name."""
    version = listed_files(run_dir).get(old)
    if version:
        add_lines(run_dir, {old: Version(0, None), new: version})


def list_gone(run_dir: Path, prefix: str) -> None:
    """Lists that the files whose names begin so were taken away again."""
    names = [name for name in listed_files(run_dir) if name.startswith(prefix)]
    add_lines(run_dir, {name: Version(0, None) for name in names})


def is_as_listed(run_dir: Path, name: str) -> bool:
    """Whether a file has the content that was listed last."""
    version = listed_files(run_dir).get(name)
    return version is not None and version_of_content(read_bytes(run_dir / name)) == version


def add_lines(run_dir: Path, versions: Mapping[str, Version]) -> None:
    """Adds a line for each file. On a full disk the files matter more: `verify` tells what has no line."""
    if not versions:
        return
    lines = JsonLines(run_dir / MANIFEST)
    try:
        with suppress(OSError):
            for path, version in versions.items():
                lines.add({"path": path, "bytes": version.n_bytes, "sha256": version.sha256})
            lines.sync()
    finally:
        lines.close()


def version_of_content(content: bytes) -> Version:
    import hashlib  # OpenSSL takes 5 ms, and lists hash nothing

    return Version(len(content), hashlib.sha256(content).hexdigest())


def hash_of(file: Any) -> str:
    import hashlib

    return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """Holds the lock of the manifest, where the file system has locks."""
    descriptor = os.open(run_dir / MANIFEST, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
