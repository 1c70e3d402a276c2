"""What the readers of raw data share: their result, damaged samples, changed files."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..file.errors import DataFileError
from ..file.hashes import version_key
from .collect import Field

MAX_SUFFIXES = 6  # of other files, shown
Finish = Callable[
    [Mapping[str, Field], Mapping[str, Mapping[str, Any]], np.ndarray, Path],
    tuple[dict[str, Field], dict[str, Mapping[str, Any]]],
]


@dataclass(frozen=True)
class RawSamples:
    """Samples of a source (see `H5DataModule.samples`), and the attributes of their fields.

    `last_file` says where the last sample comes from, if that is not plain from its key. `finish` makes
    the fields and attributes of the file of those of all samples, once it is known which rows train:
    finish(fields, attributes, rows, directory for temporary files).
    """

    samples: Iterable[dict[str, Any]]
    field_attrs: dict[str, dict[str, Any]] = field(default_factory=dict)
    last_file: Callable[[], str] = str
    finish: Finish | None = None


@dataclass(frozen=True)
class Collected:
    """All samples of the sources, in temporary files.

    Args:
        placements: "key", "split" and "group" of each that the splitter did not take while it was read.
        finish: see `RawSamples`.
    """

    fields: dict[str, Field]
    field_attrs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    placements: Iterable[Mapping[str, Any]] = ()
    finish: Finish | None = None


@dataclass(frozen=True)
class RawFile:
    """One sample: a file, its `key` (the path below its source), class and split, if it has them.

    Args:
        path: in an archive also the path of the archive.
        tar: the archive that holds it, with `n_bytes` from byte `offset` on; None: it is a file.
    """

    path: Path
    key: str
    label: str | None
    split: str | None
    tar: Path | None = None
    offset: int = 0
    n_bytes: int = 0

    @property
    def placement(self) -> dict[str, Any]:
        return {} if self.split is None else {"split": self.split}

    def content(self) -> bytes:
        """Its bytes."""
        if self.tar is None:
            return self.path.read_bytes()
        with open(self.tar, "rb", buffering=0) as archive:
            archive.seek(self.offset)
            content = archive.read(self.n_bytes)
        if len(content) < self.n_bytes:
            raise EOFError(f"{self.tar} was cut short")
        return content


@dataclass
class FilesSeen:
    """The files that lie in folders and archives, by what becomes of them."""

    n_of_kind: int = 0
    others: Counter[str] = field(default_factory=Counter)  # by their suffixes
    hidden: list[str] = field(default_factory=list)  # begin with a dot, or lie in a tool's folder
    links: list[str] = field(default_factory=list)  # not followed

    def add(self, more: "FilesSeen") -> None:
        self.n_of_kind += more.n_of_kind
        self.others += more.others
        self.hidden += more.hidden
        self.links += more.links

    def describe(self, n_packed: int) -> str:
        """Such as: files: 22 found, 10 packed, 12 of other kinds (.gif 12)."""
        n_others = self.others.total()
        others = sorted(self.others.items(), key=lambda other: (-other[1], other[0]))
        suffixes = ", ".join(f"{name} {n}" for name, n in others[:MAX_SUFFIXES])
        parts = {
            "found": self.n_of_kind + n_others + len(self.hidden) + len(self.links),
            "packed": n_packed,
            "damaged": self.n_of_kind - n_packed,
            f"of other kinds ({suffixes})": n_others,
            f"hidden (such as {min(self.hidden, default='')})": len(self.hidden),
            f"links not followed (such as {min(self.links, default='')})": len(self.links),
        }
        told = [f"{n} {what}" for what, n in parts.items() if n or what == "packed"]
        return f"files: {', '.join(told)}"


class DamagedSamples:
    """A sample that cannot be read ends the packing, or is left out when `skip` is set."""

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        self.skipped_keys: list[str] = []
        self.reasons: dict[str, str] = {}  # of the keys of which it is known
        self.counts: Counter[str] = Counter()  # what happened to some, and to how many
        self.files = FilesSeen()
        self.files_of_sample = 1
        self._lock = threading.Lock()

    def leave_out(self, key: str, reason: str) -> None:
        self.skipped_keys.append(key)
        self.reasons[key] = reason

    def count(self, what: str, n: int = 1) -> None:
        """Notes, from any thread, that something happened to `n` more samples."""
        with self._lock:
            self.counts[what] += n

    @contextmanager
    def handle(self, path: Path, key: str) -> Iterator[None]:
        """Around the reading of the sample `key` from a file."""
        try:
            yield
        except Exception as error:  # whatever a decoder raises for a damaged file
            if not self.skip:
                raise DataFileError(
                    f"{path} cannot be read: {error}. Repair it, or use --skip-damaged."
                ) from error
            self.leave_out(key, f"{path}: {error}")


class UnchangedFiles:
    """Notices when one of `files` changes after this object was made."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.versions = [*map(version_key, files)]

    def check(self) -> None:
        if [*map(version_key, self.files)] != self.versions:
            listed = ", ".join(map(str, self.files))
            raise DataFileError(
                f"{listed} changed while it was packed. Pack again when nothing writes to it."
            )
