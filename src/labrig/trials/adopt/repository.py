"""Reads code that a stranger wrote: regular files of bounded size, and no links."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import LabError

MAX_ENTRIES = 50_000  # files and directories, of any kind
MAX_BYTES = 1_000_000  # of a file
SUFFIXES = (".py", ".yaml", ".yml")
SKIPPED = ("__pycache__", "node_modules", "site-packages", "venv", "wandb", "mlruns")


@dataclass(frozen=True)
class AdoptedRepository:
    """A directory with code; its files are named relative to `root`, which is resolved."""

    root: Path

    def has(self, name: str) -> bool:
        """Whether there is such a file, or with "/" at its end such a directory, and no link leads to it."""
        path = self.root / name
        try:
            is_there = path.is_dir() if name.endswith("/") else path.is_file()
            return is_there and path.resolve() == path and path.is_relative_to(self.root)
        except OSError:  # a name that is too long
            return False

    def content(self, name: str) -> bytes:
        """The bytes of a file."""
        path = self.root / name
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise LabError(
                f"{path} is {status.st_size / 1e6:.1f} MB, or no plain file. adopt reads code and "
                f"settings of up to {MAX_BYTES / 1e6:.0f} MB. Move it out of {self.root}"
            )
        return path.read_bytes()

    def text(self, name: str) -> str:
        """The text of a file, with its line ends as they are."""
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise LabError(
                f"{self.root / name} is not UTF-8: byte {error.start}. Save it as UTF-8"
            ) from error

    @cached_property
    def listed(self) -> tuple[list[str], list[str]]:
        """The Python and YAML files, and the links, which are left out; without hidden directories."""
        files, links, n_entries = [], [], 0
        for folder, folders, names in os.walk(self.root):
            n_entries += len(folders) + len(names)
            if n_entries > MAX_ENTRIES:
                raise LabError(
                    f"{self.root} holds more than {MAX_ENTRIES:,} files. Data lies next to the code: "
                    "copy the code and its configs alone into a directory, and adopt that"
                )
            folders[:] = [name for name in folders if name[0] != "." and name not in SKIPPED]
            for path in (Path(folder, name) for name in [*folders, *names]):
                if path.is_symlink():
                    links.append(path.relative_to(self.root).as_posix())
                elif path.suffix in SUFFIXES and path.is_file():
                    files.append(path.relative_to(self.root).as_posix())
        return sorted(files), sorted(links)
