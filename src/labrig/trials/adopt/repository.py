"""Reads code that a stranger wrote: regular files of bounded size, and no links."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ...errors import LabError

MAX_ENTRIES = 50_000  # files and directories, of any kind
MAX_BYTES = 1_000_000  # of a file
SUFFIXES = (".py", ".yaml", ".yml")
SKIPPED = ("__pycache__", "node_modules", "site-packages", "venv", "wandb", "mlruns")


@dataclass(frozen=True)
class AdoptedRepository:
    """The Python and YAML files below a directory.

    Attributes:
        files: relative to `root`, with `/`, sorted.
        links: those that were left out because they are links.
    """

    root: Path
    files: tuple[str, ...]
    links: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.root.name

    def content(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            LabError: it is no regular file, or too large.
        """
        path = self.root / name
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise LabError(
                f"{path} is {status.st_size / 1e6:.1f} MB, or no plain file. adopt reads code and "
                f"settings of up to {MAX_BYTES / 1e6:.0f} MB. Move it out of {self.root}"
            )
        return path.read_bytes()

    def text(self, name: str) -> str:
        """The text of a file, with its line ends as they are.

        Raises:
            LabError: it is too large, or not UTF-8.
        """
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise LabError(
                f"{self.root / name} is not UTF-8: byte {error.start}. Save it as UTF-8"
            ) from error


def read_repository(root: Path) -> AdoptedRepository:
    """Lists the Python and YAML files below `root`, without hidden directories and links.

    Raises:
        LabError: `root` is no directory, or holds too much.
    """
    root = root.expanduser().resolve()
    if not root.is_dir():
        raise LabError(f"there is no directory {root}. Type: lab adopt PATH_OF_THE_REPOSITORY")
    files = []
    links = []
    n_entries = 0
    for folder, folders, names in os.walk(root):
        n_entries += len(folders) + len(names)
        if n_entries > MAX_ENTRIES:
            raise LabError(
                f"{root} holds more than {MAX_ENTRIES:,} files. Data lies next to the code: copy the "
                "code and its configs alone into a directory, and adopt that"
            )
        folders[:] = [name for name in folders if name[0] != "." and name not in SKIPPED]
        for name in [*folders, *names]:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                links.append(relative)
            elif name.endswith(SUFFIXES) and stat.S_ISREG(path.lstat().st_mode):
                files.append(relative)
    return AdoptedRepository(root, tuple(sorted(files)), tuple(sorted(links)))
