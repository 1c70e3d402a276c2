"""The pictures and tables that runs saved in their folder pictures/."""

from __future__ import annotations

import base64
import csv
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

from ..record.files.atomic import is_below, read_bytes

FOLDER = "pictures"
MEDIA = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
TABLE = ".csv"
MOST_BYTES = 6_000_000  # of all pictures inside a page; it links to the others
MOST_OF_RUN = 12  # pictures of one run inside a page: the newest
MOST_ROWS = 200  # of a table


@dataclass(frozen=True)
class PictureFacts:
    """A picture or a table of the run with this number."""

    run: int
    name: str  # its path in the folder
    file: str  # relative to the page
    media: str  # a media type, or "table"
    is_inside: bool  # whether the page holds it


@dataclass(frozen=True)
class SavedPicture:
    facts: PictureFacts
    content: str  # base64; empty when it is not inside
    rows: list[list[str]]  # of a table

    @property
    def about(self) -> dict:
        return asdict(self.facts) | {"rows": self.rows}


def find_pictures(directories: list[Path], folder: Path) -> list[SavedPicture]:
    """The pictures of runs, those of the first run first. `folder` is that of the page."""
    pictures = []
    left_bytes = MOST_BYTES
    for run, directory in enumerate(directories):
        for n, path in enumerate(newest_first(directory / FOLDER)):
            try:
                size = path.stat().st_size
                is_inside = n < MOST_OF_RUN and size <= left_bytes and size <= MOST_BYTES
                picture = read_picture(run, path, directory, folder, is_inside)
            except (OSError, csv.Error):
                continue  # a training has replaced it just now, or it is no table
            left_bytes -= len(picture.content)
            pictures.append(picture)
    return pictures


def newest_first(folder: Path) -> list[Path]:
    """The pictures and tables in a folder and below, without those that are being written.

    A link is left out: it may lead to a file of the reader's.
    """
    times = {}
    for path in folder.rglob("*"):
        is_shown = path.suffix.lower() in {*MEDIA, TABLE} and not path.name.startswith(".")
        with suppress(OSError):
            if is_shown and path.is_file() and is_below(path, folder.parent):
                times[path] = path.stat().st_mtime
    return sorted(times, key=times.__getitem__, reverse=True)


def read_picture(
    run: int, path: Path, directory: Path, folder: Path, is_inside: bool
) -> SavedPicture:
    """A picture or table; without its content when it is not to be inside the page."""
    suffix = path.suffix.lower()
    facts = PictureFacts(
        run=run,
        name=path.relative_to(directory / FOLDER).as_posix(),
        file=os.path.relpath(path, folder).replace(os.sep, "/"),
        media=MEDIA.get(suffix, "table"),
        is_inside=is_inside,
    )
    if not is_inside:
        return SavedPicture(facts, "", [])
    content = read_bytes(path, MOST_BYTES, below=directory)
    if suffix == TABLE:
        return SavedPicture(facts, "", read_table(content))
    return SavedPicture(facts, base64.b64encode(content).decode("ascii"), [])


def read_table(content: bytes) -> list[list[str]]:
    """The first rows of a CSV file."""
    file = StringIO(content.decode("utf-8", errors="replace"), newline="")
    return [row for row, _ in zip(csv.reader(file), range(MOST_ROWS), strict=False)]
