"""Hashes of files, remembered in the user's cache directory for each version of a file.

And the fingerprint of a folder, for data that are not packed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from ...errors import LabError
from .errors import DataFileError
from .parallel import map_in_order

MAX_KEPT = 1000  # versions; the older half is forgotten beyond


def version_key(file: Path | int) -> str:
    """Names this version of a file (a path, or an open descriptor).

    Two files may have one size and one time, after `rsync` or `tar`; so the place on the disk
    counts, and the time of the last change of any kind, which nobody can set back.
    """
    stat = os.stat(file)
    numbers = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return "-".join(f"{number:x}" for number in numbers)


def read_hash(key: str) -> str | None:
    """What `keep_hash` stored for `key`; None when it has nothing."""
    with suppress(OSError, UnicodeDecodeError):
        return (_directory() / key).read_text(encoding="ascii")
    return None


def keep_hash(key: str, sha256: str) -> None:
    """Stores a hash. A full or read-only home costs the next run a second reading, nothing else."""
    path = _directory() / key
    temporary = path.with_name(f".{key}.{secrets.token_hex(4)}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(sha256, encoding="ascii")
        os.replace(temporary, path)
        _forget_old(path.parent)


def _forget_old(directory: Path) -> None:
    paths = list(directory.iterdir())
    if len(paths) > MAX_KEPT:
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in paths[: len(paths) // 2]:
            path.unlink(missing_ok=True)


def _directory() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "lab" / "verified"


class FolderContent(TypedDict):
    """What a folder is by its content, as it stands in the record of a run."""

    sha256: str  # over the names, sizes and contents of all files
    n: int  # files
    path: str
    folder_bytes: int


class FolderFingerprint:
    """Records what the folder of a data module held: a mixin, for a data set of your own.

    class Shapes(FolderFingerprint, L.LightningDataModule):
        def __init__(self, root):
            super().__init__()
            self.folder = root
    """

    folder: str | Path

    def fingerprint(self) -> FolderContent | None:
        """The content of `folder`; None on all ranks but the first.

        Raises:
            LabError: `folder` is not set, or is none.
        """
        from lightning.pytorch.utilities import rank_zero_only  # here: `lab data verify` is quick

        if rank_zero_only.rank != 0:
            return None
        if not hasattr(self, "folder"):
            name = type(self).__name__
            raise LabError(
                f"{name} is a FolderFingerprint without a folder; set self.folder in its __init__."
            )
        return fingerprint_folder(self.folder)


def fingerprint_folder(folder: str | Path, cached: bool = True) -> FolderContent:
    """Hashes names, sizes and contents of all files below `folder`, links followed.

    Args:
        cached: files that were not changed since they were hashed are not read again; only their
            sizes and times are.

    Raises:
        DataFileError: no such folder, no files in it, or it changes meanwhile.
    """
    folder = Path(folder).resolve()
    files = _files_below(folder)
    versions = _versions(folder, files)
    key = hashlib.sha256("\n".join(versions).encode(errors="surrogateescape")).hexdigest()
    sha256 = read_hash(key) if cached else None
    if sha256 is None:
        sha256 = _hash_contents(folder, files)
        if _versions(folder, _files_below(folder)) != versions:
            raise DataFileError(f"{folder} changed while it was read. Start again when it rests.")
        keep_hash(key, sha256)
    n_bytes = sum((folder / name).stat().st_size for name in files)
    return FolderContent(sha256=sha256, n=len(files), path=str(folder), folder_bytes=n_bytes)


def _files_below(folder: Path) -> list[str]:
    """The paths of all files, relative to `folder`, in order."""
    if not folder.is_dir():
        raise DataFileError(f"{folder} is not a folder; expected one with the files of a data set.")
    files = []
    visited = set()  # a link may lead upwards
    for directory, subdirectories, names in os.walk(folder, followlinks=True):
        place = os.path.realpath(directory)
        if place in visited:
            subdirectories.clear()
            continue
        visited.add(place)
        files += [os.path.relpath(os.path.join(directory, name), folder) for name in names]
    if not files:
        raise DataFileError(f"{folder} holds no files. Copy the data set there.")
    return sorted(files)


def _versions(folder: Path, files: list[str]) -> list[str]:
    try:
        return [f"{name}\t{version_key(folder / name)}" for name in files]
    except OSError as error:
        raise _unreadable(folder, error) from error


def _hash_contents(folder: Path, files: list[str]) -> str:
    def line(name: str) -> str:
        with open(folder / name, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
            return f"{content} {os.fstat(file.fileno()).st_size} {name}"

    try:
        lines = list(map_in_order(line, files))
    except OSError as error:
        raise _unreadable(folder, error) from error
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _unreadable(folder: Path, error: OSError) -> DataFileError:
    place: Any = error.filename or folder
    return DataFileError(
        f"{place} cannot be read: {error.strerror}. "
        "It is part of the data set: look at its permissions."
    )
