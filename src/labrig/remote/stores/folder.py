"""A folder of the group."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ...errors import Failed
from ...hdf5.file.atomic_file import publish
from ...hdf5.file.errors import DataFileError
from ...hdf5.file.part import continue_at, open_part, read_blocks
from ...machine.disk import require_free_space
from ...record.files.atomic import open_file, sha256
from .store import Store, StoredFile, stored_files


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
