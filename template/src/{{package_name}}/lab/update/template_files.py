# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""Which of the template's files were edited, moved or deleted, by the hashes that it came with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..project import LAB

HASHES = f"src/{LAB.parent.name}/lab/hashes.txt"  # below the project, which knows it by its update
MARK = b"Template's file: "  # in the first line of each
HEAD_BYTES = 200
# Where an edit of a file belongs, by the beginning of its path below the project or the package
PLACES = (
    ("lab/conf/lab.yaml", "write its keys into conf/config.yaml, which wins"),
    ("lab/conf/", "copy it to the same place in conf/, where yours wins, and edit the copy"),
    ("lab/", "import, subclass or wrap it in a file of your own, and name yours in _target_"),
    ("tests/lab/", "write a test of your own in tests/"),
    ("docs/lab/", "write a page of your own in docs/"),
    (".github/", "write a workflow of your own next to it"),
)


@dataclass(frozen=True)
class ChangedFile:
    """A file of the template that is not as the template wrote it.

    Args:
        path: where the template wrote it, below the project.
        state: "edited", "moved" or "deleted".
        moved_to: where it lies now; None unless it was moved.
    """

    path: str
    state: str
    moved_to: str | None = None

    @property
    def advice(self) -> str:
        """Where an edit of it belongs."""
        place = self.path.removeprefix(f"src/{LAB.parent.name}/")
        return next(text for start, text in PLACES if place.startswith(start))


def changed_files(root: Path) -> list[ChangedFile]:
    """The template's files of the project in `root` that somebody changed."""
    hashes = read_hashes((root / HASHES).read_text(encoding="utf-8"))
    changed = []
    for path, expected in hashes.items():
        file = root / path
        if not file.is_file():
            new_place = place_of_moved(root, path, expected, hashes)
            changed.append(ChangedFile(path, "moved" if new_place else "deleted", new_place))
        elif hash_of(file.read_bytes()) != expected:
            changed.append(ChangedFile(path, "edited"))
    return changed


def read_hashes(text: str) -> dict[str, str]:
    """Path below the project -> sha256, from lines such as those of sha256sum."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("  ", 1) for line in lines]
    return {path: hexadecimal for hexadecimal, path in pairs}


def hash_of(content: bytes) -> str:
    """The sha256 of a file; with which ends of lines it was checked out does not count."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def place_of_moved(root: Path, path: str, expected: str, known: dict[str, str]) -> str | None:
    """Where the missing file `path` lies now; None when it is nowhere below src/, tests or docs."""
    for file in candidates(root):
        name = file.relative_to(root).as_posix()
        content = file.read_bytes()
        has_name = file.name == Path(path).name and MARK in content[:HEAD_BYTES]
        if name not in known and (has_name or hash_of(content) == expected):
            return name
    return None


def candidates(root: Path) -> Iterator[Path]:
    for folder in ("src", "tests", "docs", ".github"):
        for file in sorted((root / folder).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file
