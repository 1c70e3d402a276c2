"""What all places of shared data files have in common: names by content, and what lies there.

The plainest of them is a folder of the group.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, NotRequired, TypedDict

from ...errors import Failed
from ...hdf5.file.atomic_file import publish
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.part import continue_at, open_part, read_blocks
from ...machine.disk import require_free_space
from ...record.files.atomic import open_file, sha256
from ...record.files.forms import RelativePath, Sha256, matches

NAME = re.compile(r"(?P<sha256>[0-9a-f]{64})-(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)\.h5")
# A folder; or a host as after `ssh`, or a bucket, and a folder there. It becomes words of commands.
PLACE = matches(
    r"(?!-)(?:ssh://(?!-)[\w.:@%\[\]-]+/[^\x00-\x1f\x7f]+"
    r"|s3://[A-Za-z0-9][\w.-]*(?:/[^\x00-\x1f\x7f]*)?"
    r"|(?![A-Za-z][\w+.-]*://)[^\x00-\x1f\x7f]+)",
    "a folder, ssh://HOST/FOLDER or s3://BUCKET/FOLDER",
)


class StoredPart(TypedDict):
    """One of several files of a data set."""

    path: RelativePath  # below a directory of paths.data
    sha256: Sha256


class StoredData(TypedDict):
    """The setting `stored` of a data set: where its files lie, and what they hold."""

    name: Annotated[str, matches(r"[\w.-]+", "the name of a data set")]
    place: Annotated[str, PLACE]
    sha256: Sha256  # of the content, as records hold it
    files: NotRequired[list[StoredPart]]  # where `path` is a folder, pattern or list


@dataclass(frozen=True)
class StoredFile:
    """A data file that lies in a place, complete.

    Args:
        file: its name there: the hash of its content, and the name of the data set.
        changed_s: when it came, in seconds since 1970.
    """

    file: str
    size_bytes: int
    changed_s: float

    @property
    def sha256(self) -> str:
        return self.file[:64]

    @property
    def name(self) -> str:
        return self.file[65:].removesuffix(".h5")


class Store(ABC):
    """A place of data files. A file has its name there only when all of it is there."""

    @abstractmethod
    def files(self) -> list[StoredFile]:
        """All data files; what has another form of name is left out."""

    @abstractmethod
    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        """Copies `source` there, from where an earlier push was cut.

        Args:
            file: its name there.
            tell: called with each number of bytes that is there now, or was there before.
        """

    @abstractmethod
    def open(self, file: str, start: int) -> AbstractContextManager[IO[bytes]]:
        """The bytes of a file from `start` on."""

    def holds(self, stored: StoredFile, source: Path) -> bool:
        """Whether a file there is what was pushed, as far as the place can be asked."""
        return stored.size_bytes == source.stat().st_size


def stored_files(entries: Iterable[tuple[str, int, float]]) -> list[StoredFile]:
    """The data files among (name, bytes, time of change), in the order of their names."""
    files = [StoredFile(*entry) for entry in entries if NAME.fullmatch(entry[0])]
    return sorted(files, key=lambda file: (file.name, file.changed_s))


def files_by_content(store: Store) -> dict[str, StoredFile]:
    """The files that are there, by the hash of their content."""
    return {file.sha256: file for file in reversed(store.files())}


class FolderStore(Store):
    """Data files in a folder. One that is being copied is there as .NAME.part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self) -> list[StoredFile]:
        if not self.folder.is_dir():
            return []
        entries = []
        for entry in os.scandir(self.folder):
            if entry.is_file(follow_symlinks=False):
                stat = entry.stat(follow_symlinks=False)
                entries.append((entry.name, stat.st_size, stat.st_mtime))
        return stored_files(entries)

    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        try:
            self.folder.mkdir(exist_ok=True)  # not its parents: their names may be misspelt
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise Failed(
                f"{self.folder} cannot be made, {error.strerror}. "
                "Name another place: lab data push NAME PLACE"
            ) from error
        part = self.folder / f".{file}.part"
        with open_part(part) as copy, open(source, "rb") as original:
            start = continue_at(copy, os.fstat(original.fileno()).st_size)
            original.seek(start)
            tell(start)
            require_free_space(self.folder, os.fstat(original.fileno()).st_size - start)
            for block in read_blocks(original):
                copy.write(block)
                tell(len(block))
            copy.flush()
            if sha256(part) != sha256(source):
                copy.truncate(0)
                raise Failed(f"{part} does not hold the bytes of {source}. Type the same again")
            part.chmod(0o444 & os.fstat(copy.fileno()).st_mode)
            publish(part, self.folder / file)

    def holds(self, stored: StoredFile, source: Path) -> bool:
        from ...hdf5.file.checksum import fingerprint  # needs NumPy, which a list does without

        try:
            return fingerprint(self.folder / stored.file)["sha256"] == stored.sha256
        except DataFileError:
            return False

    def open(self, file: str, start: int) -> IO[bytes]:
        stream = open_file(self.folder / file)
        stream.seek(start)
        return stream
